"""Attributes of a kernel from `.nv.info`: registers, memory, threads, barriers, spills, jumps.

In: an `Elf`.  Out: `Resources` of a function.  Each attribute is a format byte, a number and a
value; names are those that nvdisasm prints (`EIATTR_…`).  What a cubin does not state is None or 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.errors import CubinError

from .elf import Elf, Section

SIZED = 4
"""The format of an attribute with a length of its own; the others hold two bytes."""
MAX_THREADS, FRAME_SIZE, MIN_STACK_SIZE = 0x05, 0x11, 0x12
REQUIRED_THREADS, PARAMETER, PARAMETER_BYTES, MAX_REGISTERS = 0x10, 0x17, 0x19, 0x1B
REGISTERS, JUMP_TABLES, MBARRIERS, CLUSTER, BARRIERS = 0x2F, 0x34, 0x38, 0x3D, 0x4C
API_VERSION, ANNOTATIONS = 0x37, 0x55
SPILL_REFILL = 1
FIRST_MARKED = 128
"""CUDA 12.8: compilers since then mark every spill, so no mark means no spill."""
UNKNOWN_STACK = 0xFFFFFFFF
RESERVED_SHARED = 1024
"""Bytes that the system keeps in each block's shared memory from sm_90 on."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel: where it lies in the parameter space, and its bytes."""

    index: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that a thread or a block of a kernel takes; memory is in bytes."""

    registers: int
    """Registers per thread."""
    shared_bytes: int
    """Static shared memory of a block, without what the system reserves."""
    local_bytes: int
    """The stack frame of a thread: local arrays, spilled and saved registers."""
    stack_bytes: int | None
    """Stack, callees included; None where recursion or a pointer leaves it open."""
    barriers: int
    """Named barriers (`BAR`); those in shared memory are not counted."""
    constant_bytes: int
    """All constant banks of the kernel, parameters included."""
    parameter_bytes: int
    parameters: tuple[Parameter, ...]
    code_bytes: int
    """Size of the code section, padding included."""
    max_threads: int | None
    """Largest number of threads in a block, where the kernel was compiled with a bound."""
    required_threads: tuple[int, int, int] | None
    """The block's exact shape, where the kernel demands one."""
    cluster: tuple[int, int, int] | None
    """Blocks of a cluster, where fixed at compile time."""
    max_registers: int | None
    """The bound that registers were allocated under (launch bounds or `maxrregcount`)."""
    spill_instructions: int | None
    """Spill stores and reloads; None where an older compiler used a stack and did not mark them."""


def attributes(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of each attribute of a `.nv.info` section."""
    data, at = (section.data if section else b""), 0
    while at + 4 <= len(data):
        form, number, length = struct.unpack_from("<BBH", data, at)
        if form == SIZED:
            yield number, data[at + 4 : at + 4 + length]
            at += 4 + length
        else:
            yield number, data[at + 2 : at + 4]
            at += 4


def architecture(elf: Elf) -> str:
    """Return `sm_90a`; its letter comes from the compiler's options, where the cubin has them."""
    number = (elf.flags >> 8 if elf.abi_version >= 8 else elf.flags) & 0xFF
    note = elf.section(".note.nv.tkinfo")
    for letter in "af":
        if note and f"sm_{number}{letter} ".encode() in note.data.replace(b"\0", b" "):
            return f"sm_{number}{letter}"
    accelerated = elf.abi_version < 8 and elf.flags & 0x800
    return f"sm_{number}a" if accelerated else f"sm_{number}"


def resources(elf: Elf, name: str, symbol: int, text: Section) -> Resources:
    """Return the resources of the function `name`: the index of its symbol, its section of code."""
    own = dict(attributes(elf.section(f".nv.info.{name}")))
    shared = _of_symbols(elf).get(symbol, {})
    frame, stack = shared.get(FRAME_SIZE, 0), shared.get(MIN_STACK_SIZE, 0)
    threads = _words(own.get(MAX_THREADS))
    marked = spill_offsets(elf, name)
    return Resources(
        registers=shared.get(REGISTERS, text.info >> 24),
        shared_bytes=_shared_bytes(elf, name),
        local_bytes=frame,
        stack_bytes=None if stack == UNKNOWN_STACK else max(stack, frame),
        barriers=_barriers(elf, own, text),
        constant_bytes=elf.constant_bytes.get(name, 0),
        parameter_bytes=_short(own.get(PARAMETER_BYTES)) or 0,
        parameters=_parameters(elf, name),
        code_bytes=text.size,
        max_threads=threads[0] * threads[1] * threads[2] if threads else None,
        required_threads=_words(own.get(REQUIRED_THREADS)),
        cluster=_words(own.get(CLUSTER)),
        max_registers=_short(own.get(MAX_REGISTERS)),
        spill_instructions=None if marked is None and frame else len(marked or ()),
    )


def spill_offsets(elf: Elf, name: str) -> frozenset[int] | None:
    """Return offsets of instructions marked by ptxas as spill or reload; None without marks.

    The mark is a pair of words, kind and offset.  Other kinds may carry more words, so decoding
    ends at the first of them.
    """
    found = set()
    marks = False
    for number, value in attributes(elf.section(f".nv.info.{name}")):
        if number == API_VERSION:
            marks = int.from_bytes(value, "little") >= FIRST_MARKED
        if number != ANNOTATIONS:
            continue
        for kind, offset in struct.iter_unpack("<II", value[: len(value) // 8 * 8]):
            if kind != SPILL_REFILL:
                break
            found.add(offset)
    return frozenset(found) if found or marks else None


def jump_tables(elf: Elf, name: str) -> dict[int, tuple[int, ...]]:
    """Return the offsets to which each indirect branch can go, keyed by its offset."""
    tables = {}
    for number, value in attributes(elf.section(f".nv.info.{name}")):
        at = 0
        while number == JUMP_TABLES and at + 12 <= len(value):
            branch, _, count = struct.unpack_from("<III", value, at)
            if at + 12 + 4 * count > len(value):
                raise CubinError(f"the cubin is damaged: a table of `{name:.80}` is cut short")
            tables[branch] = struct.unpack_from(f"<{count}I", value, at + 12)
            at += 12 + 4 * count
    return tables


@lru_cache(maxsize=8)
def _of_symbols(elf: Elf) -> dict[int, dict[int, int]]:
    """Return number and value of attributes, keyed by the index of their symbol."""
    found: dict[int, dict[int, int]] = {}
    for number, value in attributes(elf.section(".nv.info")):
        if len(value) == 8:
            about, word = struct.unpack("<II", value)
            found.setdefault(about, {})[number] = word
    return found


def _parameters(elf: Elf, name: str) -> tuple[Parameter, ...]:
    found = []
    for number, value in attributes(elf.section(f".nv.info.{name}")):
        if number == PARAMETER and len(value) == 12:
            _, index, offset, packed = struct.unpack("<IHHI", value)
            # The top 14 bits count bytes.
            found.append(Parameter(index, offset, packed >> 18))
    return tuple(sorted(found, key=lambda each: each.index))


def _shared_bytes(elf: Elf, name: str) -> int:
    section = elf.section(f".nv.shared.{name}")
    size = section.size if section else 0
    reserved = elf.section(".nv.shared.reserved.0")
    return size - RESERVED_SHARED if reserved and size >= RESERVED_SHARED else size


def _barriers(elf: Elf, own: dict[int, bytes], text: Section) -> int:
    if elf.abi_version >= 8:
        return own[BARRIERS][0] if own.get(BARRIERS) else 0
    return text.flags >> 20 & 0x7F


def _words(value: bytes | None) -> tuple[int, int, int] | None:
    if value is None or len(value) != 12:
        return None
    x, y, z = struct.unpack("<III", value)
    return x, y, z


def _short(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value[:2], "little")
