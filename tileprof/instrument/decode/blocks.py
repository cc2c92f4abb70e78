"""Groups of warps, and the times of blocks, roles and launches.

In: the heads of slots, and a time for each warp and site.  Out: sums over blocks and launches.  All
slots of a repeated launch (in a graph, in a loop) may have one tag; a block then ends where a warp
appears for a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof.instrument.slots import SlotHeads

from .imbalance import Spread

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def blocks_of(heads: SlotHeads) -> Ints:
    """Return (slots): a number for the block of each, from 0 on."""
    tag, number, warp = (heads[name].astype(np.int64) for name in ("tag", "block", "warp"))
    order = np.lexsort((warp, number, tag))
    same = (np.diff(tag[order]) == 0) & (np.diff(number[order]) == 0)
    new = np.append(True, ~same)[: len(heads)]
    if (same & (np.diff(warp[order]) == 0)).any():
        order = np.lexsort((heads["begin_ns"], number, tag))
        _split_repeated(new, heads[order])
    made = np.empty(len(heads), np.int64)
    made[order] = np.cumsum(new) - 1
    return made


def _split_repeated(new: Flags, heads: SlotHeads) -> None:
    """Split warps of repeated block numbers.

    Warps of one tag and block number lie together in the order of their begins, and `new` is set at
    the first of them.  Set it too where the next block of that number begins.
    """
    seen: set[int] = set()
    until = 0
    columns: list[list[int]] = [heads[name].tolist() for name in ("warp", "begin_ns", "end_ns")]
    for at, (first, warp, begin, end) in enumerate(zip(new.tolist(), *columns)):
        if first or warp in seen or begin > until:
            new[at], until = True, 0
            seen.clear()
        seen.add(warp)
        until = max(until, end)


class _By:
    """Rows put together by a number of each."""

    def __init__(self, number: Ints) -> None:
        self.order = np.argsort(number, kind="stable")
        ordered = number[self.order]
        self.first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])

    def _ordered(self, values: Floats) -> Floats:
        """Return columns as rows: what is added up lies together."""
        return np.ascontiguousarray(values[self.order].T)

    def mean(self, values: Floats, there: Flags) -> tuple[Floats, Ints]:
        """Return the mean of the rows that are there, 0 where none is; and how many are."""
        count = np.add.reduceat(self._ordered(there.astype(np.float64)), self.first, axis=1)
        total = np.add.reduceat(self._ordered(np.where(there, values, 0.0)), self.first, axis=1)
        return (total / np.maximum(count, 1)).T, count.T.astype(np.int64)

    def most(self, values: Floats, there: Flags) -> Floats:
        """Return the largest of the rows that are there, 0 where none is."""
        ordered = self._ordered(np.where(there, values, 0.0))
        return np.asarray(np.maximum.reduceat(ordered, self.first, axis=1).T)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The block, the role and the launch of each warp."""

    block: Ints
    """(slots): as `blocks_of` numbers them."""
    launch: Ints
    """(blocks): the tag of each."""
    producer: Flags
    """(slots): True for warps that load for the others."""

    @classmethod
    def of(cls, heads: SlotHeads, consumer_warps: int | None) -> Groups:
        """Return the groups of some heads; warps from `consumer_warps` on are producers."""
        block = blocks_of(heads)
        launch = np.zeros(int(block.max(initial=-1)) + 1, np.int64)
        launch[block] = heads["tag"]
        none = np.zeros(len(heads), np.bool_)
        return cls(
            block, launch, none if consumer_warps is None else heads["warp"] >= consumer_warps
        )

    def of_blocks(self, time: Floats, there: Flags) -> tuple[Floats, Ints]:
        """Return (blocks, sites): time of the mean visiting warp, and how many visited."""
        return _By(self.block).mean(time, there)

    def spread(self, time: Floats, there: Flags, blocks: Floats, warps: Ints) -> Spread:
        """Return the spread of warps' times (slots, sites), given the results of `of_blocks`."""
        roles = _By(self.block * 2 + self.producer)
        launches, visited = _By(self.launch), warps > 0
        return Spread(
            producer_ns=time[self.producer].sum(0),
            workers=there.sum(0),
            group_mean_ns=roles.mean(time, there)[0].sum(0),
            group_most_ns=roles.most(time, there).sum(0),
            launch_mean_ns=launches.mean(blocks, visited)[0].sum(0),
            launch_most_ns=launches.most(blocks, visited).sum(0),
        )
