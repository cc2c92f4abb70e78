"""Global memory as rules ask about it: accesses, what the compiler counted of them, bytes moved.

In: a kernel.  Out: widths of its instructions; remarks about accesses, as numbers; sectors of 32
bytes of requests that ran, or that the addresses of lanes lead to; how much of what memory gives at
most is used.

A request of a full warp needs as many sectors as one lane has bytes: 32 lanes times the width, by
32 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import Instruction, KernelCode, same_line
from tileprof.analyzer.findings import percent
from tileprof.analyzer.lanes import WARP, Block, Lanes, addresses
from tileprof.errors import Location
from tileprof.profile import DevicePeak

__all__ = [
    "ACCESSES", "ATOMICS", "LINE", "LOADS", "NEAR", "REACHED", "SECTOR", "STORES", "WIDEST",
    "Request", "Requests", "Told", "block_of", "bytes_without_loops", "counted_use", "memory_use",
    "requests", "told", "told_at", "width_of", "worked_out",
]  # fmt: skip

LOADS = ("LDG",)
STORES = ("STG",)
ACCESSES = (*LOADS, *STORES, "LDGSTS")
ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")
SECTOR = 32
LINE = 128
"""Bytes that a multiprocessor's cache looks up, and moves, in one pass."""
WIDEST = 16
"""Bytes that a thread moves by one instruction at most."""
NEAR = 0.83
"""Of a memory's measured bandwidth, from which on it gives no more to speak of: what kernels on an
H200 whose tiles go through shared memory, and no defect was put in, had at least."""
REACHED = 0.93
"""Of a memory's measured bandwidth, what a kernel reaches that only moves: what those had whose
threads move 16 bytes each."""
_WIDTHS = {
    "8": 1, "U8": 1, "S8": 1, "16": 2, "U16": 2, "S16": 2, "64": 8, "F64": 8, "U64": 8, "S64": 8,
    "128": 16,
}  # fmt: skip
_SAID = re.compile(r"(\d+)-byte accesses, (\d+) sectors? a request, (\d+) needed")


@dataclass(frozen=True, slots=True)
class Told:
    """A remark about an access of a tensor: what one request of a warp takes, by its layout."""

    op: str
    """`load A`, `store C`, `atomic C`."""
    location: Location | None
    text: str
    width: int
    """Bytes a thread."""
    sectors: int
    needed: int

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.sectors / max(self.needed, 1)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one instruction that ran."""

    instruction: Instruction
    count: int
    sectors: int
    """Of all of them."""
    ideal: float
    """Sectors of one, by its width and its threads."""

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.sectors / (self.count * self.ideal)

    @property
    def wasted(self) -> float:
        """Sectors that are not needed."""
        return max(0.0, self.sectors - self.count * self.ideal)


@dataclass(frozen=True, slots=True)
class Request:
    """What one request of an access takes, by the addresses of its lanes."""

    instruction: Instruction
    sectors: int
    needed: int
    """Sectors that as many bytes fill."""
    widened: float
    """Sectors for each that is needed where each lane moves all of its 16 bytes."""
    follows: bool
    """Whether lanes have addresses of their own, and what a copy writes to shared memory is as far
    apart as what it reads."""

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.sectors / self.needed


def width_of(opcode: str) -> int:
    """Bytes that a thread moves: 16 for `LDG.E.128`."""
    return next((_WIDTHS[each] for each in opcode.split(".")[1:] if each in _WIDTHS), 4)


def told(case: KernelCase) -> tuple[Told, ...]:
    """What the compiler says of accesses of tensors."""
    found = list[Told]()
    for remark in case.remarks:
        if said := _SAID.fullmatch(remark.chosen):
            numbers = (int(each) for each in said.groups())
            found.append(Told(remark.op, remark.location, remark.chosen, *numbers))
    return tuple(found)


def told_at(case: KernelCase, code: KernelCode, said: Told) -> list[int]:
    """The instructions that a remark is about: those of its kind, width and line.

    Loads move in front of a loop's points and stores behind them, so their line may be that of a
    neighbour: where none has the remark's own, those of its kind and width whose line no other
    remark has.
    """
    kinds, width = _kinds(said), said.width
    alike = code.where(lambda e: e.name in kinds and width_of(e.opcode) == width)
    lines = {index: case.user_line(code.instructions[index].place) for index in alike}
    exact = [index for index in alike if same_line(lines[index], said.location)]
    others = [e for e in told(case) if _kinds(e) == kinds and e.width == width]
    return exact or [
        index for index in alike if not any(same_line(lines[index], e.location) for e in others)
    ]


def requests(code: KernelCode, where: Iterable[int]) -> Iterator[Requests]:
    """Those of instructions whose sectors were counted and that ran."""
    for index in where:
        count = code.executed([index], "global_requests")
        sectors = code.executed([index], "global_sectors")
        if not count or sectors is None:
            continue
        warps = code.executed([index], "executions")
        threads = code.executed([index], "thread_executions")
        lanes = threads / warps if threads and warps else WARP
        each = code.instructions[index]
        ideal = max(1, math.ceil(lanes * width_of(each.opcode) / SECTOR))
        yield Requests(each, count, sectors, ideal)


@lru_cache(maxsize=8)
def worked_out(case: KernelCase) -> dict[int, Request]:
    """By place of an access, its request, where the code tells the addresses of its lanes."""
    code, block = case.code, block_of(case)
    if code is None or block is None:
        return {}
    found = addresses(code, block)
    return {
        index: _request(code.instructions[index], found[index])
        for index in code.named(*ACCESSES, *ATOMICS)
        if index in found
    }


def block_of(case: KernelCase) -> Block | None:
    """Threads of its blocks along each axis; None where that is not known."""
    numbers = [int(each) for each in re.findall(r"\d+", str(case.attributes.get("block", "")))]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _request(instruction: Instruction, lanes: list[Lanes]) -> Request:
    at, width = np.unique(lanes[-1]), width_of(instruction.opcode)
    sectors, chunks = _parts(at, width, SECTOR), _parts(at, width, WIDEST)
    wide = math.ceil(chunks * WIDEST / SECTOR)
    follows = len(at) == len(lanes[-1]) and bool((np.diff(lanes[0] - lanes[-1]) == 0).all())
    needed = math.ceil(len(at) * width / SECTOR)
    return Request(instruction, sectors, needed, sectors / wide, follows)


def _parts(at: Lanes, width: int, size: int) -> int:
    """How many aligned parts of memory accesses touch."""
    return len(np.unique(np.concatenate([at // size, (at + width - 1) // size])))


def counted_use(case: KernelCase) -> tuple[float, str] | None:
    """The share of a memory's measured bandwidth that a kernel used, and in words, by counters of
    DRAM or of L2, whichever is nearer to its roof; None where they were not counted."""
    found = list[tuple[float, str]]()
    peak, l2 = case.memory_peak, case.peaks.get("l2_read")
    if case.time and peak and (moved := case.total("dram_bytes")):
        found.append(_use(moved, case.time, peak))
    if case.time and l2 and (held := case.total("l2_sectors")):
        found.append(_use(held * SECTOR, case.time, l2))
    return max(found, default=None)


def memory_use(case: KernelCase) -> tuple[float, str] | None:
    """As `counted_use`; without counters by the bytes that a kernel has to move, which are no more
    than were moved, unless caches had some: where they are more, nothing is known."""
    needed = case.needed_bytes or bytes_without_loops(case)
    peak = case.peaks.get("l2_read") if case.resides and case.needed_bytes else None
    peak = peak or case.memory_peak
    if (counted := counted_use(case)) or not case.time or not peak:
        return counted
    use = _use(needed, case.time, peak)
    return use if 0 < use[0] <= 1 else None


@lru_cache(maxsize=8)
def bytes_without_loops(case: KernelCase) -> float:
    """What all blocks of all launches ask for, each byte once a block, by the addresses in code
    without loops; 0 where not all of them are known."""
    code, block = case.code, block_of(case)
    grid = [int(each) for each in re.findall(r"\d+", str(case.attributes.get("grid", "")))]
    if code is None or block is None or not grid or any(e.depth for e in code.instructions):
        return 0.0
    found = addresses(code, block, math.prod(block))
    if not all(index in found for index in code.named(*ACCESSES, *ATOMICS)):
        return 0.0
    moved = sum(_distinct(code, code.named(*names), found) for names in (LOADS, STORES))
    return float(moved * math.prod(grid) * case.launches)


def _distinct(code: KernelCode, where: list[int], found: Mapping[int, list[Lanes]]) -> int:
    """Bytes that these accesses touch, each once."""
    widths = {index: width_of(code.instructions[index].opcode) for index in where}
    if not widths:
        return 0
    step = min(widths.values())
    parts = [found[i][-1] + at for i, width in widths.items() for at in range(0, width, step)]
    return len(np.unique(np.concatenate(parts) // step)) * step


def _kinds(said: Told) -> tuple[str, ...]:
    return {"load": (*LOADS, "LDGSTS"), "store": STORES}.get(said.op.partition(" ")[0], ATOMICS)


def _use(moved: float, time: float, roof: DevicePeak) -> tuple[float, str]:
    share = moved / time * 1e9 / roof.value
    return share, f"{percent(share, 0)} of {roof.value / 1e12:.3g} TB/s, as measured ({roof.name})"
