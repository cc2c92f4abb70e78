"""How fast a loop that loads tiles can go, and whether it waits for latency or for bandwidth.

In: a loop with samples, the bytes of its tiles, what the device gives at most.  Out: `Pace`, the
parts of a turn that tensor cores and the way of the tiles take by themselves.

Little's law: loads that are asked for `ahead` turns before their use are under way for `ahead`
turns. Alone they take the latency of memory and their transfer. Where they are under way for longer
they stand in a queue, and to ask for more of them makes the queue longer, not the loop faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.tensor_use import tensor_use
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import slow_paths, turns

__all__ = ["Pace", "pace_of"]

_LATENCY = 800
"""Cycles until a tile is there whose transfer takes none, on a device at work: in products of two
stages on an H200 turns were 530 and 720 cycles longer than their transfer (PLANT)."""
_FASTEST = 530
"""The least of these."""
_PORT = 64
"""Bytes a cycle that one multiprocessor takes from L2 at most; no loop on an H200 came above 42."""
_BUSY = 0.87
"""Of the cycles of a loop, in which tensor cores multiply where nothing is in their way: Triton's
products on an H200 (`benchmarks/results/plant-triton.json`)."""
_FULL = 0.95
"""Of a roof of L2 or of memory, what loops reach that wait for nothing else
(`benchmarks/results/plant-dev.json`)."""
_QUEUE = 1.25
"""Times of latency and transfer, from which on tiles stand in a queue."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Of a turn of a loop."""

    cycles: float
    """As it was measured; 0 where that is not known."""
    tensor: float
    """Share of it that tensor cores multiply."""
    transfer: float
    """Share of it that the bytes of a turn take, of all blocks that run at once; 0 if not known."""

    alone: float = 0.0
    """The same, of one multiprocessor whose way nobody else uses."""

    @property
    def least(self) -> float:
        """Share of it that is left however far loads run ahead."""
        return max(self.tensor, min(1.0, self.transfer / _FULL))

    @property
    def likely(self) -> float:
        """Share of it that is left where tensor cores are as busy as in products that are written
        well."""
        return min(1.0, max(self.tensor / _BUSY, self.least))

    def shortest(self, ahead: int) -> float:
        """Share of it that is left at least, where loads are asked for so many turns ahead.

        What others take is no part of latency: they wait meanwhile as well.
        """
        if not self.cycles or ahead < 1:
            return self.least
        way = (_FASTEST / self.cycles + self.alone) / ahead
        return min(1.0, max(self.least, way))

    def is_latency(self, ahead: int) -> bool:
        """Whether loads that are asked for so many turns ahead are under way for about as long as
        memory takes for them alone."""
        return ahead * self.cycles <= _QUEUE * (_LATENCY + self.transfer * self.cycles)


def pace_of(case: KernelCase, code: KernelCode, loop: range, stage_bytes: float) -> Pace:
    """The pace of a loop that loads so many bytes a turn."""
    turned = turns(code, loop)
    cycles = code.n([*loop, *slow_paths(code, loop)]) / turned if turned else 0.0
    transfer = max(_transfers(case, stage_bytes, cycles), default=0.0)
    alone = _filled(case) * stage_bytes / _PORT / cycles if cycles else 0.0
    return Pace(cycles, tensor_use(case, code, loop), min(transfer, 1.0), min(alone, 1.0))


def _transfers(case: KernelCase, stage_bytes: float, cycles: float) -> Iterator[float]:
    """By roof, the share of the time that bytes take there."""
    if not case.time or not cycles:
        return
    for name, floor in case.roofs.floors.items():
        if case.roofs.peaks[name].unit == "bytes/s":
            yield floor / case.time
    yield _filled(case) * stage_bytes / _PORT / cycles
    l2, launch = case.roofs.peaks.get("l2_read"), launch_of(case)
    if l2 and case.total("bytes"):
        yield case.total("bytes") / l2.value * 1e9 / case.time
    elif l2 and l2.clock_mhz and launch:
        running = min(launch.blocks, launch.multiprocessors * launch.held)
        yield stage_bytes * running / cycles / (l2.value / (l2.clock_mhz * 1e6))


def _filled(case: KernelCase) -> float:
    """Blocks of a multiprocessor that has some."""
    waves = min(1.0, case.number("waves") or 1.0)
    return max(1.0, (case.number("blocks_per_sm") or 1.0) * waves)
