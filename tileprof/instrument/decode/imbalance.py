"""Spread of a kernel's time at a place over those who spent it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Spread of the time at each entry of `SiteTimes` over the workers who spent it.

    Sums, so that launches add up.  A worker is a warp of a block on a GPU, and on a CPU the thread
    that runs the block; a group is the workers of one role of one block.
    """

    producer_ns: Floats
    """Part of the total spent by warps that load for the others."""
    workers: Ints
    """Number of workers that visited at least once."""
    group_mean_ns: Floats
    """Time of the mean visiting worker of each group, summed over groups."""
    group_most_ns: Floats
    """Time of the worker of each group that spent most, summed over groups."""
    launch_mean_ns: Floats
    """Time of the mean visiting block of each launch, summed over launches."""
    launch_most_ns: Floats
    """Time of the block of each launch that spent most, summed over launches."""

    @classmethod
    def of_single_workers(
        cls, total_ns: Ints, blocks: Ints, block_min_ns: Ints, block_max_ns: Ints
    ) -> Spread:
        """Return the spread of one launch in which each block had one worker."""
        none, total = np.zeros(len(blocks)), total_ns.astype(np.float64)
        mean = np.clip(total / np.maximum(blocks, 1), block_min_ns, block_max_ns)
        return cls(none, blocks, total, total, mean, block_max_ns.astype(np.float64))

    @classmethod
    def merge(cls, parts: Sequence[Spread], rows: Sequence[Ints], size: int) -> Spread:
        """Return the sums of several; entry i of part p goes to its own entry `rows[p][i]`."""
        made = cls(*(np.zeros(size, getattr(parts[0], f.name).dtype) for f in fields(cls)))
        for part, row in zip(parts, rows):
            for each in fields(cls):
                getattr(made, each.name)[row] += getattr(part, each.name)
        return made

    @property
    def over_workers(self) -> Floats:
        """The slowest worker of a group over the mean one: 1 where all took as long; NaN: no time.

        Blocks with little time count little."""
        return _ratio(self.group_most_ns, self.group_mean_ns)

    @property
    def over_blocks(self) -> Floats:
        """The slowest block of a launch over the mean one; NaN: no time."""
        return _ratio(self.launch_most_ns, self.launch_mean_ns)


def _ratio(most: Floats, mean: Floats) -> Floats:
    made = np.full(len(mean), np.nan)
    np.divide(most, mean, out=made, where=mean > 0)
    return made
