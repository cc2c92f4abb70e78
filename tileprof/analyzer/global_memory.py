"""Global memory as rules ask about it: accesses, what the compiler counted of them, bytes moved.

In: a kernel.  Out: widths of its instructions; remarks about accesses, as numbers; sectors of 32
bytes of requests that ran; how much of what memory gives at most is used.

A request of a full warp needs as many sectors as one lane has bytes: 32 lanes times the width, by
32 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import Instruction, KernelCode, same_line
from tileprof.analyzer.findings import percent
from tileprof.errors import Location
from tileprof.profile import DevicePeak

__all__ = [
    "ACCESSES", "ATOMICS", "LOADS", "NEAR", "SECTOR", "STORES", "WIDEST", "Requests", "Told",
    "counted_use", "memory_use", "requests", "told", "told_at",
    "width_of",
]  # fmt: skip

LOADS = ("LDG",)
STORES = ("STG",)
ACCESSES = (*LOADS, *STORES, "LDGSTS")
ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")
SECTOR = 32
WIDEST = 16
"""Bytes that a thread moves by one instruction at most."""
NEAR = 0.85
"""Of a memory's measured bandwidth, from which on it gives no more to speak of."""
_LANES = 32
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
        lanes = threads / warps if threads and warps else _LANES
        each = code.instructions[index]
        ideal = max(1, math.ceil(lanes * width_of(each.opcode) / SECTOR))
        yield Requests(each, count, sectors, ideal)


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
    """As `counted_use`; without counters by the bytes that the program asks for, which is no more
    than was moved, unless caches must have served some: then nothing is known."""
    peak, asked = case.memory_peak, case.total("bytes")
    if (counted := counted_use(case)) or not case.time or not peak or not asked:
        return counted
    use = _use(asked, case.time, peak)
    return use if use[0] <= 1 else None


def _kinds(said: Told) -> tuple[str, ...]:
    return {"load": (*LOADS, "LDGSTS"), "store": STORES}.get(said.op.partition(" ")[0], ATOMICS)


def _use(moved: float, time: float, roof: DevicePeak) -> tuple[float, str]:
    share = moved / time * 1e9 / roof.value
    return share, f"{percent(share, 0)} of {roof.value / 1e12:.3g} TB/s, as measured ({roof.name})"
