"""Sketches of many nodes that are added to again and again, as long as a program runs.

In: sketches by index of the node, as devices' totals are handed over.  Out: the sketch of each
node.

All lie in one table, in pages of their own. An array for each node that is made anew every few
seconds would be one of many small pieces among what a file's making takes from the allocator and
gives back: nothing of that could be used again as a whole, and the heap would grow for minutes.
A row of the table has all buckets between a power of two and the next: a node's times reach new
powers of two in the first seconds, and new buckets for hours.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tileprof.pages import pages
from tileprof.profile import Sketch, split_sketches
from tileprof.profile.sketch import BUCKETS, PER_OCTAVE, added_up

_Ints = npt.NDArray[np.int64]
_OCTAVES = BUCKETS // PER_OCTAVE
_ROOM = 4
"""A table that is too small grows by this part of what it needs."""
_LEAST_ROOM = 64
"""Rows that there is room for at first."""
_AT_ONCE = 16
"""Nodes of which sketches are made at a time: what that takes comes and goes with each file."""
_ADDED_AT_ONCE = 2048
"""Buckets that are added at a time, or those of a sketch that has more: as with `_AT_ONCE`."""
_MOST_WAITING = 4096
"""Sketches that wait at most."""


class SketchSums:
    """The sums of sketches by index of the node."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Sketch]] = []
        self._table = _Table(0)

    @property
    def room(self) -> int:
        """Number of buckets that there is room for, of all nodes."""
        return self._table.room * PER_OCTAVE

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
        part: list[tuple[int, Sketch]] = []
        buckets = 0
        for each in waiting:
            part.append(each)
            buckets += len(each[1].buckets)
            if buckets >= _ADDED_AT_ONCE:
                self._settle(part)
                part, buckets = [], 0
        if part:
            self._settle(part)

    def _settle(self, waiting: list[tuple[int, Sketch]]) -> None:
        sketches = [sketch for _, sketch in waiting]
        indices = np.array([index for index, _ in waiting], np.int64)
        nodes = np.repeat(indices, [len(sketch.buckets) for sketch in sketches])
        buckets = np.concatenate([sketch.buckets for sketch in sketches]).astype(np.int64)
        counts = np.concatenate([sketch.counts for sketch in sketches])
        self._add(*added_up(nodes * BUCKETS + buckets, counts))

    def sketches(self) -> dict[int, Sketch]:
        """Return a copy of each node's sketch, by index of the node."""
        self.settle()
        nodes = self._table.keys // _OCTAVES
        begins = np.flatnonzero(np.diff(nodes, prepend=-1)).tolist()
        found: dict[int, Sketch] = {}
        for first in range(0, len(begins), _AT_ONCE):
            part, after = (
                begins[first : first + _AT_ONCE],
                begins[first + _AT_ONCE : first + _AT_ONCE + 1],
            )
            found |= self._sketches(slice(part[0], after[0] if after else nodes.size))
        return found

    def _sketches(self, part: slice) -> dict[int, Sketch]:
        """Return the sketches of all nodes in a part of the rows, by their order."""
        keys, counts = self._table.keys[part], self._table.counts[self._table.rows[part]]
        row, bucket = np.nonzero(counts)
        nodes, octaves = keys[row] // _OCTAVES, keys[row] % _OCTAVES
        begins = np.flatnonzero(np.diff(nodes, prepend=-1))
        sketches = split_sketches(
            [*begins.tolist(), nodes.size], octaves * PER_OCTAVE + bucket, counts[row, bucket]
        )
        return dict(zip(nodes[begins].tolist(), sketches))

    def _add(self, keys: _Ints, counts: _Ints) -> None:
        octaves = keys // PER_OCTAVE
        new = np.setdiff1d(octaves, self._table.keys)
        if new.size:
            self._make_rows(new)
        table = self._table
        rows = table.rows[np.searchsorted(table.keys, octaves)]
        # Each bucket of a row is there once.
        table.counts[rows, keys % PER_OCTAVE] += counts

    def _make_rows(self, new: _Ints) -> None:
        """Add empty rows, for keys that ascend."""
        size = self._table.keys.size
        if (needed := size + new.size) > self._table.room:
            self._table = self._table.grown(max(needed + needed // _ROOM, _LEAST_ROOM))
        table = self._table
        places = np.searchsorted(table.keys, new)
        table.rows = np.insert(table.rows, places, np.arange(size, needed))
        table.keys = np.insert(table.keys, places, new)


class _Table:
    """Counts of the buckets between powers of two, in the order in which these came."""

    def __init__(self, room: int) -> None:
        size = 8 * PER_OCTAVE * room
        held = (
            np.frombuffer(pages(size, resident=True), np.int64) if room else np.zeros(0, np.int64)
        )
        self.room = room
        """Number of rows there is room for."""
        self.counts = held[: room * PER_OCTAVE].reshape(room, PER_OCTAVE)
        self.keys: _Ints = np.zeros(0, np.int64)
        """Number of the node times the number of octaves, and the octave, ascending."""
        self.rows: _Ints = np.zeros(0, np.int64)
        """The row of each key."""

    def grown(self, room: int) -> _Table:
        """Return a table with room for more."""
        made = _Table(room)
        made.keys, made.rows = self.keys, self.rows
        made.counts[: self.keys.size] = self.counts[: self.keys.size]
        return made
