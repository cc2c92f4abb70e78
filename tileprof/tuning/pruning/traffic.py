"""Bytes that a launch of a Triton kernel moves between memory and L2.

In: a configuration, and how many multiprocessors the GPU has.  Out: `Traffic`.  Blocks that run at
once share what they load, so reads depend on how many those are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.profiler.frameworks import triton_numbers as numbers
from tileprof.profiler.frameworks.triton_accesses import Step, is_branch

from .configured import Configured
from .iterations import LINEAR, Iterations, bytes_of, is_load, is_store, size_of
from .numbers import L2_KEEPS, MOST_PROGRAMS, RUNNING_BLOCKS, SECTOR


@dataclass(frozen=True)
class Traffic:
    """Bytes that a launch moves between memory and L2."""

    read: tuple[tuple[int, float], ...]
    """Bytes by blocks that run at once."""
    written: float


def traffic_of(given: Configured, sms: int) -> Traffic:
    """Return a launch's traffic on a GPU of `sms` multiprocessors.  Raises `NotKnown`."""
    reader = _Memory(given)
    return Traffic(reader.memory([sms * each for each in RUNNING_BLOCKS]), reader.written())


class _Memory(Iterations):
    def __init__(self, given: Configured) -> None:
        super().__init__(given)
        self._numbered: dict[int, npt.NDArray[np.int64] | None] = {}

    def memory(self, running: Sequence[int]) -> tuple[tuple[int, float], ...]:
        """Return the bytes that loads bring from memory, by blocks that run at once."""
        fits = sum(self.given.sizes.values()) <= L2_KEEPS
        return tuple((each, self._read(0 if fits else each)) for each in running)

    def _read(self, running: int) -> float:
        """Return the bytes that waves of so many blocks read; 0: all blocks are one wave."""
        by_place: dict[int, tuple[Step, float]] = {}
        for each in self.steps:
            if each.argument < 0 or (is_store(each) and not is_load(each)):
                continue
            trips = math.prod(
                self.mean(t) for loop, t in each.around if loop in each.moves or is_branch(t)
            )
            before = by_place.get(each.place)
            if before is None or before[1] < trips:
                by_place[each.place] = each, trips
        total = dict[int, float]()
        waves = math.ceil(self.given.blocks / running) if running else 1
        for step, trips in by_place.values():
            row = (step.shape[-1] if step.shape else 1) * bytes_of(step.kind)
            size = size_of(step) * (max(1.0, SECTOR / row) if len(step.shape) > 1 else 1.0)
            read = self._distinct(step, running) * size * trips
            total[step.argument] = total.get(step.argument, 0.0) + read
        return sum(
            min(read, waves * float(self.given.sizes.get(argument, math.inf)))
            for argument, read in total.items()
        )

    def _distinct(self, step: Step, running: int) -> float:
        """Return the tiles that waves of blocks access, each counted once in a wave."""
        blocks = self.given.blocks
        running = min(running or blocks, blocks)
        waves = math.ceil(blocks / running) if blocks else 0
        if not step.axes:
            return float(waves)
        if step.where and blocks <= MOST_PROGRAMS and (ids := self._tiles(step)) is not None:
            wave = np.arange(blocks) // running
            return float(len(np.unique(wave * (int(ids.max()) + 1) + ids)))
        most = math.prod(self.given.grid[axis] for axis in step.axes)
        return float(waves * min(most, running))

    def _tiles(self, step: Step) -> npt.NDArray[np.int64] | None:
        """Return for each block the number of the tile that a step accesses; None: not known."""
        if step.place not in self._numbered:
            ids = np.zeros(self.given.blocks, np.int64)
            for each in step.where:
                values = numbers.by_program(each, self.launch, LINEAR, self.values)
                if values is None:
                    self._numbered[step.place] = None
                    break
                _, own = np.unique(np.broadcast_to(values, self.given.blocks), return_inverse=True)
                _, ids = np.unique(ids * (int(own.max()) + 1) + own, return_inverse=True)
            else:
                self._numbered[step.place] = ids
        return self._numbered[step.place]

    def written(self) -> float:
        """Return the bytes that all blocks store."""
        total = dict[int, float]()
        for each in self.steps:
            if is_store(each):
                trips = math.prod(self.mean(t) for _, t in each.around)
                size = size_of(each) * trips * self.given.blocks
                total[each.argument] = total.get(each.argument, 0.0) + size
        return sum(
            min(size, float(self.given.sizes.get(argument, math.inf)))
            for argument, size in total.items()
        )
