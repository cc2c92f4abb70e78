"""How fast a loop that loads tiles can go, and whether it waits for latency or for bandwidth.

In: a loop with samples, the bytes of its tiles, what the device gives at most.  Out: `Pace`, the
parts of a turn that tensor cores and the way of the tiles take by themselves.

Little's law: loads that are asked for `ahead` turns before their use are under way for `ahead`
turns. Alone they take the latency of memory and their transfer. Where they are under way for longer
they stand in a queue, and to ask for more of them makes the queue longer, not the loop faster.

Cycles say nothing of the clock, which goes down as tensor cores get busy. A roof of products was
measured with busy ones, so what a loop takes in time is told by that (`at_roof`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import clock_mhz, launch_of
from tileprof.analyzer.kernel.tensor_use import tensor_use
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import slow_paths, turns
from tileprof.analyzer.numbers.kernels import (
    PACE_BUSY,
    PACE_BY_POWER,
    PACE_FASTEST,
    PACE_FILLED,
    PACE_FULL,
    PACE_LATENCY,
    PACE_PORT,
    PACE_QUEUE,
    PACE_TOGETHER,
    PACE_UNDER_LOAD,
)
from tileprof.analyzer.numbers.shared import PRODUCTS_REACHED


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
    memory: float = 0.0
    """Share of the time that the kernel's bytes take at their roof."""

    @property
    def least(self) -> float:
        """Share of it that is left however far loads run ahead."""
        return max(self.tensor, min(1.0, self.transfer / PACE_FULL))

    @property
    def full(self) -> bool:
        """Whether the way of the tiles is full."""
        return self.transfer >= PACE_FILLED

    @property
    def fed(self) -> float:
        """Share of it that is left where tiles are never late.

        L2's roof is a looser limit of that: requests of several multiprocessors for one tile meet
        on their way.
        """
        shared = max(self.memory / PACE_FULL, self.transfer / PACE_TOGETHER)
        way = max(self.alone, shared) if self.tensor else self.least
        return max(self.tensor, min(1.0, way))

    @property
    def usual(self) -> float:
        """Expected tensor-core utilisation when no measured roof is available."""
        return min(1.0, max(self.tensor / PACE_BUSY, self.fed))

    def late(self, ahead: int) -> float:
        """Share of it that a turn takes at least where all multiprocessors load so many turns
        ahead; 0 where that is not known."""
        return PACE_UNDER_LOAD / ahead / self.cycles if self.cycles and ahead > 0 else 0.0

    @property
    def likely(self) -> float:
        """Share of it that is left where tensor cores are as busy as in products that are written
        well."""
        return min(1.0, max(self.tensor / PACE_BUSY, self.least))

    def shortest(self, ahead: int) -> float:
        """Share of it that is left at least, where loads are asked for so many turns ahead.

        What others take is no part of latency: they wait meanwhile as well.
        """
        if not self.cycles or ahead < 1:
            return self.least
        way = (PACE_FASTEST / self.cycles + self.alone) / ahead
        return min(1.0, max(self.least, way))

    def is_latency(self, ahead: int) -> bool:
        """Whether loads that are asked for so many turns ahead are under way for about as long as
        memory takes for them alone."""
        return ahead * self.cycles <= PACE_QUEUE * (PACE_LATENCY + self.transfer * self.cycles)


def pace_of(case: KernelCase, code: KernelCode, loop: range, stage_bytes: float) -> Pace:
    """The pace of a loop that loads so many bytes a turn."""
    turned = turns(code, loop)
    cycles = code.n([*loop, *slow_paths(code, loop)]) / turned if turned else 0.0
    transfer = max(_transfers(case, stage_bytes, cycles), default=0.0)
    alone = _filled(case) * stage_bytes / PACE_PORT / cycles if cycles else 0.0
    memory = max(_of_memory(case), default=0.0)
    return Pace(
        cycles, tensor_use(case, code, loop), min(transfer, 1.0), min(alone, 1.0), min(memory, 1.0)
    )


def at_roof(case: KernelCase, rounds: float = 0.0, reached: float = PRODUCTS_REACHED[1]) -> float:
    """The share of its time that a kernel's products take at what is reached of their roof, in so
    many rounds of tiles, or those that it has; 0 where their work is not known."""
    launch, peak = launch_of(case), case.roofs.arithmetic_peak
    if not case.roofs.tensor_floor or not case.time or launch is None or peak is None:
        return 0.0
    rounds = rounds or (launch.rounds if launch.tiles else launch.each)
    working = rounds / math.ceil(rounds)
    faster = max(clock_mhz(case) / peak.clock_mhz, 1.0) if peak.clock_mhz else 1.0
    rate = min(math.pow(working, PACE_BY_POWER), working * faster)
    return min(1.0, case.roofs.tensor_floor / case.time / reached / rate)


def _transfers(case: KernelCase, stage_bytes: float, cycles: float) -> Iterator[float]:
    """By roof, the share of the time that bytes take there."""
    if not case.time or not cycles:
        return
    yield from _of_memory(case)
    yield _filled(case) * stage_bytes / PACE_PORT / cycles
    l2, launch = case.roofs.peaks.get("l2_read"), launch_of(case)
    if l2 and case.total("bytes"):
        yield case.total("bytes") / l2.value * 1e9 / case.time
    elif l2 and l2.clock_mhz and launch:
        running = min(launch.blocks, launch.multiprocessors * launch.held)
        yield stage_bytes * running / cycles / (l2.value / (l2.clock_mhz * 1e6))


def _of_memory(case: KernelCase) -> Iterator[float]:
    """The shares of the time that its bytes take at roofs."""
    for name, floor in case.roofs.floors.items():
        if case.roofs.peaks[name].unit == "bytes/s":
            yield floor / case.time


def _filled(case: KernelCase) -> float:
    """Blocks of a multiprocessor that has some."""
    waves = min(1.0, case.number("waves") or 1.0)
    return max(1.0, (case.number("blocks_per_sm") or 1.0) * waves)
