"""Plans of measuring each roof: its kernels, their launches, and what a launch does.

In: a device's target and multiprocessors, and the memory that there is for it.  Out: plans, in the
order in which they run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tileprof.compiler.cuda.target import Target

from . import texts

_L2_BYTES = 16 << 20
"""Fits into the half of an L2 that is nearest, in GPUs whose L2 has two."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Buffers on the device."""

    address: int
    """A multiple of 256."""
    size: int
    """Bytes, many times those of the L2; a copy goes from the first half to the second."""
    sink: int
    """Address for stores that never happen."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to launch a kernel: roofs take the best of several."""

    function: str
    blocks: Callable[[int], int]
    """Function from the repetitions in a launch to its number of blocks."""
    addresses: tuple[int, ...]
    symbols: Callable[[int], tuple[int, ...]]
    work: Callable[[int], int]
    """Bytes or operations of a launch of so many turns."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of measuring one roof."""

    name: str
    unit: str
    formula: str
    attempts: tuple[Attempt, ...]
    warming_ms: int = 20
    """Time that it runs before it counts, in ms."""


def plans(target: Target, multiprocessors: int, memory: Memory) -> tuple[Plan, ...]:
    """Return all roofs that are rates."""
    return (
        *_memory(multiprocessors, memory),
        _shared(multiprocessors, memory),
        *_tensor(target, multiprocessors, memory),
        *_arithmetic(multiprocessors, memory),
    )


def _memory(sms: int, memory: Memory) -> tuple[Plan, ...]:
    half = memory.size // 2
    whole, halves = _size(memory.size), f"{_size(half)} to {_size(half)}"
    apart = "accesses of 16 bytes, many times the size of the L2"
    return (
        _device_memory("hbm_read", f"bytes read / time; {whole}, {apart}", sms, memory, 1),
        _device_memory("hbm_write", f"bytes written / time; {whole}, {apart}", sms, memory, 1),
        _device_memory(
            "hbm_copy", f"(bytes read + bytes written) / time; {halves}, {apart}", sms, memory, 2
        ),
        Plan(
            "l2_read",
            "bytes/s",
            f"bytes read / time; {_size(_L2_BYTES)}, read by all multiprocessors past L1",
            tuple(_walking("l2_read", v, sms, memory, _L2_BYTES, 1) for v in texts.VECTORS),
        ),
    )


def _device_memory(name: str, formula: str, sms: int, memory: Memory, ways: int) -> Plan:
    size = memory.size // ways
    attempts = [_one_by_one(name, v, memory, size, ways) for v in texts.VECTORS]
    attempts += [_walking(name, v, sms, memory, size, ways) for v in texts.VECTORS]
    return Plan(name, "bytes/s", formula, tuple(attempts))


def _chunk(vectors: int) -> int:
    """Bytes that a block moves at once."""
    return texts.MEMORY_THREADS * vectors * 16


def _pointers(memory: Memory, ways: int) -> tuple[int, int, int]:
    to = memory.address + (memory.size // 2 if ways == 2 else 0)
    return memory.address, to, memory.sink


def _one_by_one(name: str, vectors: int, memory: Memory, size: int, ways: int) -> Attempt:
    """Return a block for each piece; a turn is once over the memory."""
    pieces = size // _chunk(vectors)
    return Attempt(
        f"{name}_{vectors}",
        lambda turns: turns * pieces,
        _pointers(memory, ways),
        lambda turns: (pieces, 1),
        lambda turns: turns * pieces * _chunk(vectors) * ways,
    )


def _walking(name: str, vectors: int, sms: int, memory: Memory, size: int, ways: int) -> Attempt:
    """Return an attempt with as many blocks as run at once; a repetition is a piece of each."""
    pieces, blocks = size // _chunk(vectors), sms * 32 // vectors
    return Attempt(
        f"{name}_{vectors}",
        lambda turns: blocks,
        _pointers(memory, ways),
        lambda turns: (pieces, turns),
        lambda turns: turns * blocks * _chunk(vectors) * ways,
    )


def _in_turns(name: str, blocks: int, memory: Memory, work: int) -> Attempt:
    """Blocks that loop; `work`: of one of them in a turn."""
    return Attempt(
        name,
        lambda turns: blocks,
        (memory.sink,),
        lambda turns: (turns,),
        lambda turns: turns * blocks * work,
    )


def _shared(sms: int, memory: Memory) -> Plan:
    formula = "bytes read / time; 16 bytes a thread, no bank conflicts, all multiprocessors"
    work = texts.SHARED_THREADS * texts.SHARED_READS * 16
    return Plan(
        "shared_read", "bytes/s", formula, (_in_turns("shared_read", 4 * sms, memory, work),)
    )


def _tensor(target: Target, sms: int, memory: Memory) -> tuple[Plan, ...]:
    return tuple(
        Plan(
            each.name,
            "op/s" if each.accumulator == "s32" else "flop/s",
            f"2 m n k / time; {each.instruction(target)}, operands that are there already,"
            f" of random {'integers' if each.accumulator == 's32' else 'numbers from 0.5 to 2'}",
            # One block of warp groups is all that a multiprocessor has registers for.
            (_in_turns(each.name, sms * (1 if target.has_wgmma else 2), memory,
                       each.operations(target)),),
            warming_ms=300,
        )
        for each in texts.products(target)
    )  # fmt: skip


_ARITHMETIC = {
    "fma_float32": ("flop/s", 2, "2 operations of each fma / time; 32-bit floats"),
    "fma_float64": ("flop/s", 2, "2 operations of each fma / time; 64-bit floats"),
    "exp2_float32": ("op/s", 1, "results / time; ex2.approx.ftz.f32"),
}


def _arithmetic(sms: int, memory: Memory) -> tuple[Plan, ...]:
    links = texts.ARITHMETIC_THREADS * texts.CHAINS * texts.LINKS
    return tuple(
        Plan(
            name, unit, f"{formula}, {texts.CHAINS} independent chains a thread",
            (_in_turns(name, 2 * sms, memory, links * operations),),
        )
        for name, (unit, operations, formula) in _ARITHMETIC.items()
    )  # fmt: skip


def _size(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
