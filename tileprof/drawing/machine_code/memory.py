"""Memory of a launch, and what its accesses ask for.

In: an instruction of memory.  Out: a function that runs it in some lanes and counts its requests;
`MisalignedError` where a GPU would end the launch.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.binary.instructions import Instruction
from tileprof.compiler.cuda.target import SECTOR
from tileprof.drawing.moved import Moved, Way
from tileprof.drawing.transactions import LINE, different, parted_wavefronts, sectors
from tileprof.once import cached_property
from tileprof.runtime.events.access import AccessKind

from .arithmetic import Run
from .operands import (
    At,
    Lanes,
    UnknownOperandError,
    address_terms,
    following,
    is_predicate,
    predicate,
    source,
    target,
)

Bytes = NDArray[np.uint8]
Key = tuple[ir.Space, AccessKind, Way]
"""Kind of request."""
OPCODES: dict[str, Key] = {
    "LDG": ("global", "read", "threads"),
    "LDGSTS": ("global", "read", "cp.async"),
    "STG": ("global", "write", "threads"),
    "RED": ("global", "atomic", "threads"),
    "REDG": ("global", "atomic", "threads"),
    "ATOMG": ("global", "atomic", "threads"),
    "LDS": ("shared", "read", "threads"),
    "LDSM": ("shared", "read", "ldmatrix"),
    "STS": ("shared", "write", "threads"),
    "STSM": ("shared", "write", "stmatrix"),
}
"""Kind of request of each instruction that a page counts."""
_LOCAL = 4096
"""Bytes of local memory of a thread that are told apart."""
_WINDOW = (1 << 24) - 1
"""Bits of an address of shared memory behind the number of its block in a cluster."""
MATRIX_LANES = {"M88": 8, "2": 16, "4": 32}
BOX, CHUNK, BARRIER = 128, 16, 8
"""Bytes of which tensor copies, bulk copies and rows of matrices, and mbarriers begin at a multiple
(CUDA C++ Programming Guide 13.0, "Tensor Memory Access"; PTX ISA, "ldmatrix", "mbarrier")."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of one kind at a line, of one tensor."""

    line: int
    kind: Key
    region: int = -1
    """Position of the region of global memory that the first lane asks for; -1 for shared memory
    and for what is in none."""


class MisalignedError(Exception):
    """An access that is wider than what divides its address."""


def check_aligned(op: Instruction, places: Any, width: int) -> None:
    """MisalignedError unless all addresses are multiples of a number of bytes."""
    wrong = np.asarray(places) % width != 0
    if wrong.any():
        place = int(np.asarray(places)[wrong].reshape(-1)[0])
        raise MisalignedError(f"{op.text} at {op.offset:#x}: {place:#x} is no multiple of {width}")


@dataclass(eq=False)
class Memory:
    """Global, shared and local memory of the blocks that run together, and requests for it."""

    blocks: int
    threads: int
    shared_bytes: int
    regions: list[tuple[int, Bytes]]
    """Global memory: addresses and bytes."""
    shared: Bytes = field(init=False)
    counted: dict[Asked, Moved] = field(init=False)

    def __post_init__(self) -> None:
        self.shared = np.zeros((self.blocks, self.shared_bytes), np.uint8)
        self.counted = defaultdict(Moved)

    @cached_property
    def local(self) -> Bytes:
        """Local memory of each thread; few kernels have any."""
        return np.zeros((self.blocks * self.threads, _LOCAL), np.uint8)

    def count(
        self, line: int, kind: Key, places: Any, at: At, width: int, lanes: int = 32
    ) -> Asked | None:
        """Add the requests of warps whose lanes ask for `width` bytes at these addresses; return
        what they are of, None where no lane takes part."""
        asked = np.full(self.blocks * self.threads, -1, np.int64)
        asked[at] = places
        rows = asked.reshape(-1, 32)
        rows[:, lanes:] = -1
        rows = rows[(rows >= 0).any(axis=1)]
        if not len(rows):
            return None
        bytes_ = int(different(rows).sum()) * width
        if kind[0] == "shared":
            taken, apart, least = parted_wavefronts(rows, width)
            needed = np.minimum(apart, least)
            parted, at_region = int((apart - needed).sum()), -1
        else:
            taken, needed = sectors(rows, width)
            parted, at_region = 0, self._region(int(rows[rows >= 0][0]))
        asked_of = Asked(line, kind, at_region)
        moved = Moved(len(rows), int(taken.sum()), int(needed.sum()), bytes_, 0, parted)
        self.counted[asked_of].add(moved)
        return asked_of

    def _region(self, place: int) -> int:
        """Return the position of the region with an address; -1 where none has it."""
        inside = (n for n, (at, held) in enumerate(self.regions) if at <= place < at + len(held))
        return next(inside, -1)

    def count_copies(self, line: int, places: Any, into: Any, at: At, width: int) -> None:
        """Add the requests of cp.async: `places` in global memory, -1 in lanes that fill in zeros,
        and `into` in shared memory.  Copies of 16 bytes bring a sector for each sector they fill,
        of which the L1 looks up those of one line together."""
        of = self.count(line, ("global", "read", "cp.async"), places, at, width)
        if width < CHUNK or of is None:
            return
        asked = np.full((2, self.blocks * self.threads), -1, np.int64)
        asked[:, at] = places, into
        for origin, put in zip(asked[0].reshape(-1, 32), asked[1].reshape(-1, 32)):
            goes = origin >= 0
            begin, filled = origin[goes], put[goes] // SECTOR
            brought, looked_up, touched = (
                len({*zip((begin // unit).tolist(), by.tolist())})
                for unit, by in ((SECTOR, filled), (LINE, filled), (SECTOR, 0 * filled))
            )
            self.counted[of].add(Moved(0, brought - touched, 0, 0, brought - looked_up))

    def read_global(self, places: NDArray[np.int64], width: int) -> Bytes:
        """Return `width` bytes at each address; zeros where nothing is."""
        made = np.zeros((len(places), width), np.uint8)
        for start, held in self.regions:
            inside = (places >= start) & (places + width <= start + len(held))
            if inside.any():
                made[inside] = held[(places[inside] - start)[:, None] + np.arange(width)]
        return made

    def write_global(self, places: NDArray[np.int64], given: Bytes) -> None:
        """Write bytes at each address that is there."""
        width = given.shape[1]
        for start, held in self.regions:
            inside = (places >= start) & (places + width <= start + len(held))
            if inside.any():
                held[(places[inside] - start)[:, None] + np.arange(width)] = given[inside]

    def shared_places(self, lanes: Any, places: Any, width: int) -> tuple[Any, Any]:
        """Return block and byte of addresses in shared memory."""
        bytes_ = (np.asarray(places) & _WINDOW)[:, None] + np.arange(width)
        return (lanes // self.threads)[:, None], np.minimum(bytes_, self.shared_bytes - 1)


def region(address: int, size: int) -> tuple[int, Bytes]:
    """Return memory of this process as a region."""
    held = (ctypes.c_uint8 * max(size, 1)).from_address(address)
    return address, np.ctypeslib.as_array(held)


def width_of(op: Instruction) -> int:
    """Return the bytes of each lane's access."""
    for each, size in (("128", 16), ("64", 8), ("U8", 1), ("S8", 1), ("U16", 2), ("S16", 2)):
        if each in op.modifiers:
            return size
    return 4


def _place(op: Instruction, wide: bool) -> tuple[int, Any]:
    """Return which operand is the address, and what gives it."""
    at = next(n for n, each in enumerate(op.operands) if "[" in each and not each.startswith("c["))
    text = op.operands[at].rpartition("[")[2].rstrip("]")
    return at, address_terms(text, wide)


def _spread(value: Any, count: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.asarray(value, np.int64), (count,))


def _numbers(memory: Memory, at: At) -> NDArray[np.int64]:
    return np.arange(memory.blocks * memory.threads)[at]


def load(op: Instruction, memory: Memory, line: int) -> Run:
    """LDG, LDS, LDL, LD: registers from memory."""
    key, width = OPCODES.get(op.name), width_of(op)
    position, terms = _place(op, op.name in ("LDG", "LD"))
    first = next(each for each in op.operands[:position] if not is_predicate(each))
    puts = [target(following(first, n)) for n in range(max(width // 4, 1))]
    sign = {"S8": 0x80, "S16": 0x8000}
    bit = next((sign[each] for each in op.modifiers if each in sign), 0)

    def run(lanes: Lanes, at: At) -> None:
        numbers = _numbers(memory, at)
        places = _spread(terms(lanes, at), len(numbers))
        check_aligned(op, places, width)
        if key is not None:
            memory.count(line, key, places, at, width)
        if op.name == "LDS":
            held = memory.shared[memory.shared_places(numbers, places, width)]
        elif op.name == "LDL":
            held = memory.local[numbers[:, None], (places[:, None] + np.arange(width)) % _LOCAL]
        else:
            held = memory.read_global(places, width)
        words = np.zeros((len(numbers), 4 * len(puts)), np.uint8)
        words[:, :width] = held
        for put, each in zip(puts, words.view("<u4").T):
            value = each.astype(np.int64)
            put(lanes, at, (value ^ bit) - bit if bit else value)

    return run


def store(op: Instruction, memory: Memory, line: int) -> Run:
    """STG, STS, STL, ST: registers to memory."""
    key, width = OPCODES.get(op.name), width_of(op)
    position, terms = _place(op, op.name in ("STG", "ST"))
    first = op.operands[position + 1]
    held = [source(following(first, n)) for n in range(max(width // 4, 1))]

    def run(lanes: Lanes, at: At) -> None:
        numbers = _numbers(memory, at)
        places = _spread(terms(lanes, at), len(numbers))
        check_aligned(op, places, width)
        if key is not None:
            memory.count(line, key, places, at, width)
        words = [_spread(each.bits(lanes, at), len(numbers)) for each in held]
        given = np.stack(words, axis=1).astype("<u4").view(np.uint8)[:, :width]
        if op.name == "STS":
            memory.shared[memory.shared_places(numbers, places, width)] = given
        elif op.name == "STL":
            memory.local[numbers[:, None], (places[:, None] + np.arange(width)) % _LOCAL] = given
        else:
            memory.write_global(places, given)

    return run


def matrices(op: Instruction, memory: Memory, line: int) -> Run:
    """LDSM, STSM: the addresses of rows of 16 bytes; what is in them is left out."""
    key = OPCODES[op.name]
    _, terms = _place(op, False)
    lanes_of = next((MATRIX_LANES[e] for e in ("4", "2") if e in op.modifiers), 8)

    def run(lanes: Lanes, at: At) -> None:
        numbers = _numbers(memory, at)
        places = _spread(terms(lanes, at), len(numbers))
        check_aligned(op, places[numbers % 32 < lanes_of], CHUNK)
        memory.count(line, key, places, at, CHUNK, lanes_of)

    return run


def copy(op: Instruction, memory: Memory, line: int) -> Run:
    """LDGSTS: bytes from global to shared memory; zeros where the last predicate does not hold."""
    width = width_of(op)
    to = address_terms(op.operands[0].strip("[]"), False)
    origin = address_terms(op.operands[1].rpartition("[")[2].rstrip("]"), True)
    there = [predicate(each) for each in op.operands[2:] if is_predicate(each)]

    def run(lanes: Lanes, at: At) -> None:
        numbers = _numbers(memory, at)
        goes = np.ones(len(numbers), np.bool_)
        for each in there:
            goes = goes & np.broadcast_to(each(lanes, at), goes.shape)
        places = _spread(origin(lanes, at), len(numbers))
        into = _spread(to(lanes, at), len(numbers))
        check_aligned(op, into, width)
        check_aligned(op, places[goes], width)
        memory.count_copies(line, np.where(goes, places, -1), into, at, width)
        held = memory.read_global(places, width)
        held[~goes] = 0
        memory.shared[memory.shared_places(numbers, into, width)] = held

    return run


def atomic(op: Instruction, memory: Memory, line: int) -> Run:
    """RED, ATOMG, ATOM, ATOMS: elements that are changed; of sums of 32-bit numbers what they
    were."""
    key = OPCODES.get(op.name)
    position, terms = _place(op, op.name != "ATOMS")
    vectors = {"128": 16, "64": 8, "V4": 16, "V2": 8}
    width = next((vectors[each] for each in op.modifiers if each in vectors), 4)
    if "F32X4" in op.opcode or "x4" in op.opcode:
        width = 16
    elif "F32X2" in op.opcode or "x2" in op.opcode:
        width = 8
    results = [each for each in op.operands[:position] if not is_predicate(each)]
    given = source(op.operands[position + 1])
    is_float = any(each.startswith("F") for each in op.modifiers if each != "FTZ")

    def run(lanes: Lanes, at: At) -> None:
        numbers = _numbers(memory, at)
        places = _spread(terms(lanes, at), len(numbers))
        check_aligned(op, places, width)
        if key is not None:
            memory.count(line, key, places, at, width)
        if op.name == "ATOMS" or not results or is_float:
            return
        words = _spread(given.bits(lanes, at), len(numbers))
        before = np.zeros(len(numbers), np.int64)
        for n, (place, word) in enumerate(zip(places.tolist(), words.tolist())):
            here = np.array([place])
            old = int(memory.read_global(here, 4).view("<u4")[0, 0])
            before[n] = old
            if "EXCH" in op.modifiers:
                new = word
            elif "ADD" in op.modifiers:
                new = old + word
            else:
                raise UnknownOperandError(op.text)
            data = np.array([[new & 0xFFFFFFFF]], "<u4").view(np.uint8)
            memory.write_global(here, data)
        target(results[0])(lanes, at, before)

    return run


def check_barrier(op: Instruction, lanes: Lanes, at: At) -> None:
    """MisalignedError where SYNCS names no mbarrier."""
    if any("[" in each for each in op.operands):
        check_aligned(op, _place(op, False)[1](lanes, at), BARRIER)


def tensor_copy(op: Instruction, memory: Memory, line: int) -> Run:
    """UTMALDG, UTMASTG, UTMAREDG: the addresses of the box and of the barrier of a load; what is
    moved is left out."""
    first = op.operands[0].strip("[]")
    box = source(first)
    barrier = source(following(first, 1)) if op.name == "UTMALDG" else None

    def run(lanes: Lanes, at: At) -> None:
        check_aligned(op, box.bits(lanes, at), BOX)
        if barrier is not None:
            check_aligned(op, barrier.bits(lanes, at), BARRIER)

    return run


COPIES = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG", "LDSM", "STSM"})
"""Instructions whose bytes do not move here."""
TABLE: dict[str, Callable[[Instruction, Memory, int], Run]] = {
    "LDG": load, "LDS": load, "LDL": load, "LD": load, "STG": store, "STS": store, "STL": store,
    "ST": store, "LDSM": matrices, "STSM": matrices, "LDGSTS": copy, "RED": atomic, "REDG": atomic,
    "ATOMG": atomic, "ATOM": atomic, "ATOMS": atomic, "UTMALDG": tensor_copy,
    "UTMASTG": tensor_copy, "UTMAREDG": tensor_copy,
}  # fmt: skip
