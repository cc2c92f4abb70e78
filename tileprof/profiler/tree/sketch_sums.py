"""Sketches of many nodes that are added to again and again, as long as a program runs.

In: sketches by index of the node, as devices' totals are handed over.  Out: the sketch of each
node.

All lie in one table, in pages of their own. An array for each node that is made anew every few
seconds would be one of many small pieces among what a file's making takes from the allocator and
gives back: nothing of that could be used again as a whole, and the heap would grow for minutes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tileprof.profile import Sketch, split_sketches
from tileprof.profile.sketch import BUCKETS, added_up
from tileprof.profiler.tree.pages import pages

_Ints = npt.NDArray[np.int64]
_ROOM = 8
"""A table that is too small grows by this part of what it needs."""
_MOST_WAITING = 4096
"""Sketches that wait at most."""


class SketchSums:
    """The sums of sketches by index of the node."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Sketch]] = []
        self._table = _Table(0)
        self._spare = _Table(0)
        """Table that takes the place of the first when there are new buckets."""

    @property
    def room(self) -> int:
        """Number of buckets that there is room for, of all nodes and in both copies."""
        return self._table.room + self._spare.room

    def add(self, index: int, sketch: Sketch) -> None:
        """Add a sketch to a node's; its arrays are held until the next `settle`."""
        self._waiting.append((index, sketch))
        if len(self._waiting) >= _MOST_WAITING:
            self.settle()

    def settle(self) -> None:
        """Add what waits to the table."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        sketches = [sketch for _, sketch in waiting]
        indices = np.array([index for index, _ in waiting], np.int64)
        nodes = np.repeat(indices, [len(sketch.buckets) for sketch in sketches])
        buckets = np.concatenate([sketch.buckets for sketch in sketches]).astype(np.int64)
        counts = np.concatenate([sketch.counts for sketch in sketches])
        self._add(*added_up(nodes * BUCKETS + buckets, counts))

    def sketches(self) -> dict[int, Sketch]:
        """Return a copy of each node's sketch, by index of the node."""
        self.settle()
        keys, counts = self._table.keys, self._table.counts
        nodes, buckets = keys // BUCKETS, keys % BUCKETS
        starts = np.flatnonzero(np.diff(nodes, prepend=-1))
        ends = [*starts.tolist(), keys.size]
        return dict(zip(nodes[starts].tolist(), split_sketches(ends, buckets, counts)))

    def _add(self, keys: _Ints, counts: _Ints) -> None:
        table = self._table
        at = np.searchsorted(table.keys, keys)
        known = at < table.size
        known[known] = table.keys[at[known]] == keys[known]
        table.counts[at[known]] += counts[known]
        new = ~known
        fresh = int(np.count_nonzero(new))
        if not fresh:
            return
        needed = table.size + fresh
        spare = self._spare if self._spare.room >= needed else _Table(needed + needed // _ROOM)
        spare.size = needed
        # The place of a new one is that among the old ones, and one more for each new one before.
        places = at[new] + np.arange(fresh)
        kept = np.ones(needed, np.bool_)
        kept[places] = False
        for into, old, more in (
            (spare.keys, table.keys, keys[new]),
            (spare.counts, table.counts, counts[new]),
        ):
            into[places] = more
            into[kept] = old
        self._table, self._spare = spare, table


class _Table:
    """Keys, ascending, and their counts: the number of the node times `BUCKETS`, and the bucket."""

    def __init__(self, room: int) -> None:
        held = np.frombuffer(pages(2 * 8 * room), np.int64) if room else np.zeros(0, np.int64)
        self._columns = held.reshape(2, -1)
        self.room = self._columns.shape[1]
        """Number of keys there is room for."""
        self.size = 0
        """Number of keys."""

    @property
    def keys(self) -> _Ints:
        """All keys, as they lie."""
        return self._columns[0, : self.size]

    @property
    def counts(self) -> _Ints:
        """The count of each key, 1 or more."""
        return self._columns[1, : self.size]
