"""How much of what memory gives at most a kernel uses, and what that leaves to gain.

In: a kernel with the bytes that it moved or has to move, and what its device was measured to give.
Out: `MemoryUse`.

Memory gives less to a mix of reads and writes than to one of them; between the three that were
measured it is as far as the share of writes. On an H200 kernels without a defect that only move
reached 0.93 to 1.04 of that, rows of softmax and norms 0.97 to 1.03, transposes 0.94 to 0.95; and
of the best that memory gave to anything 0.83 to 0.94.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.findings import percent
from tileprof.analyzer.kernel.global_memory import (
    ACCESSES,
    ATOMICS,
    LOADS,
    STORES,
    block_of,
    width_of,
)
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.lanes import Lanes, addresses
from tileprof.analyzer.numbers.kernels import (
    MEMORY_USE_BEST_OF_MIX,
    MEMORY_USE_COPY,
    MEMORY_USE_NEAR,
    MEMORY_USE_ONLY_READS,
    MEMORY_USE_REACHED,
    MEMORY_USE_REACHED_OF_MIX,
    MEMORY_USE_REACHED_OF_READS,
)
from tileprof.analyzer.numbers.shared import MOST_OF_ROOF, SECTOR


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Of a kernel."""

    share: float
    """Of what memory gives at most."""
    roof: str
    """The rate, and how it was measured."""
    reached: float = MEMORY_USE_REACHED
    """Of what memory gives at most, what a kernel reaches that only moves."""
    best: float = 1.0
    """Of what memory gives at most, the most that was seen."""

    @property
    def text(self) -> str:
        """In words."""
        return f"{percent(self.share, 0)} of {self.roof}"

    @property
    def near(self) -> bool:
        """Whether memory gives no more to speak of."""
        return self.share >= MEMORY_USE_NEAR * self.reached

    @property
    def room(self) -> float:
        """Of the kernel's time, what goes if it only moves."""
        return max(0.0, 1 - self.share / self.reached)

    @property
    def sure_room(self) -> float:
        """The same of a kernel that only comes near."""
        return max(0.0, 1 - self.share / (MEMORY_USE_NEAR * self.reached))

    @property
    def most(self) -> float:
        """How many times as fast a kernel can be that moves as much."""
        return max(1.0, self.best / self.share)


def counted_use(case: KernelCase) -> MemoryUse | None:
    """By counters of DRAM or of L2, whichever is nearer to its roof; None where not counted."""
    found = list[MemoryUse]()
    best, l2 = case.roofs.memory_peak, case.roofs.peaks.get("l2_read")
    for peak, moved in ((best, case.total("dram_bytes")), (l2, SECTOR * case.total("l2_sectors"))):
        if case.time and peak and moved:
            found.append(_use(moved, case.time, peak.value, peak.name))
    return max(found, key=lambda each: each.share, default=None)


def memory_use(case: KernelCase) -> MemoryUse | None:
    """As `counted_use`; without counters by the bytes that a kernel has to move, which are no more
    than were moved, unless caches had some: where they are more, nothing is known."""
    if (counted := counted_use(case)) or not case.time:
        return counted
    if case.roofs.needed_bytes:
        moved, written = case.roofs.needed_bytes, case.roofs.written
    else:
        loaded, stored = bytes_without_loops(case)
        moved, written = loaded + stored, stored / (loaded + stored or 1)
    use = _of_roof(case, moved, written) if moved else None
    return use if use and use.share <= MOST_OF_ROOF else None


def _of_roof(case: KernelCase, moved: float, written: float) -> MemoryUse | None:
    l2, best = case.roofs.peaks.get("l2_read"), case.roofs.memory_peak
    if case.roofs.needed_bytes and case.roofs.resides and l2:
        return _use(moved, case.time, l2.value, l2.name)
    if mixed := case.roofs.mixed_rate(min(written, MEMORY_USE_COPY) if written < 1 else written):
        name = f"hbm, {percent(written, 0)} writes"
        reached = (
            MEMORY_USE_REACHED_OF_MIX
            if written > MEMORY_USE_ONLY_READS
            else MEMORY_USE_REACHED_OF_READS
        )
        return _use(moved, case.time, mixed, name, reached, MEMORY_USE_BEST_OF_MIX)
    return _use(moved, case.time, best.value, best.name) if best else None


def _use(
    moved: float, time: float, peak: float, name: str,
    reached: float = MEMORY_USE_REACHED, best: float = 1.0,
) -> MemoryUse:  # fmt: skip
    roof = f"{peak / 1e12:.3g} TB/s, as measured ({name})"
    return MemoryUse(moved / time * 1e9 / peak, roof, reached, best)


@lru_cache(maxsize=8)
def bytes_without_loops(case: KernelCase) -> tuple[float, float]:
    """What all blocks of all launches load and store, each byte once a block, by the addresses in
    code without loops; nothing where not all of them are known."""
    code, block = case.code, block_of(case)
    blocks = case.extent("grid") * case.launches
    if code is None or block is None or not blocks or any(e.depth for e in code.instructions):
        return 0.0, 0.0
    found = addresses(code, block, math.prod(block))
    if not all(index in found for index in code.named(*ACCESSES, *ATOMICS)):
        return 0.0, 0.0
    loaded, stored = (_distinct(code, code.named(*each), found) for each in (LOADS, STORES))
    return float(loaded * blocks), float(stored * blocks)


def _distinct(code: KernelCode, where: list[int], found: Mapping[int, list[Lanes]]) -> int:
    """Bytes that these accesses touch, each once."""
    widths = {index: width_of(code.instructions[index].opcode) for index in where}
    if not widths:
        return 0
    step = min(widths.values())
    parts = [found[i][-1] + at for i, width in widths.items() for at in range(0, width, step)]
    return len(np.unique(np.concatenate(parts) // step)) * step
