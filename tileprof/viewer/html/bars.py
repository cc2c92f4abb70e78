"""Bars of a timeline, limited in number: long spans stay single, short ones are merged.

In: spans of time in rows, within which they follow one another.  Out: bars in order of row and
time; one that stands for several says for how many, and how much of its time they fill.

The longest spans of each row stay. What lies between two of them is joined, within parts of the
time that are too short to be seen in a picture of all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bars:
    """Columns with one entry per bar; times in ns."""

    row: _Ints
    begin: _Ints
    end: _Ints
    what: _Ints
    """Kind with the most time, where a bar stands for several spans."""
    count: _Ints
    """Number of spans that the bar stands for."""
    busy: _Ints
    """Time of these spans: the bar's, less the gaps between them."""
    source: _Ints
    """Index of the bar's span, -1 where it stands for several."""

    def columns(self, rows: int) -> dict[str, Any]:
        """Return JSON values: bars of each row, and the gap from one's end to the next begin."""
        before = np.concatenate([[0], self.end[:-1]])
        before[np.flatnonzero(np.diff(self.row, prepend=-1))] = 0
        several = np.flatnonzero(self.count > 1)
        many = np.stack([several, self.count[several], self.busy[several]], axis=1)
        return {
            "counts": np.bincount(self.row, minlength=rows).tolist(),
            "gap": (self.begin - before).tolist(),
            "length": (self.end - self.begin).tolist(),
            "what": self.what.tolist(),
            "many": many.tolist(),
            "spans": int(self.count.sum()),
        }


def bars_of(row: Any, begin: Any, end: Any, what: Any, most: int) -> Bars:
    """Return bars of spans, `most` and two a row at most; `what` are numbers from 0 on."""
    columns = [np.asarray(each, np.int64) for each in (row, begin, end, what)]
    order = np.lexsort((columns[2], columns[1], columns[0]))
    row, begin, end, what = (column[order] for column in columns)
    if not len(row):
        return Bars(*[np.zeros(0, np.int64)] * 7)
    rooms = _rooms(np.bincount(row), len(row) if len(row) <= most else max(most // 3, 1))
    kept = _longest(row, end - begin, rooms)
    first = np.flatnonzero(_begins(row, begin, end, kept, rooms))
    count = np.diff(np.append(first, len(row)))
    return Bars(
        row[first],
        begin[first],
        np.maximum.reduceat(end, first),
        _mostly(np.repeat(np.arange(len(first)), count), what, end - begin),
        count,
        np.add.reduceat(end - begin, first),
        np.where(count == 1, order[first], -1),
    )


def _rooms(counts: _Ints, room: int) -> _Ints:
    """Return how many bars each row keeps; rows with few leave their room to others."""
    rooms = np.zeros(len(counts), np.int64)
    for place, row in enumerate(np.argsort(counts, kind="stable").tolist()):
        rooms[row] = min(int(counts[row]), room // (len(counts) - place))
        room -= int(rooms[row])
    return rooms


def _longest(row: _Ints, length: _Ints, rooms: _Ints) -> npt.NDArray[np.bool_]:
    """Return whether each span is among the longest of its row that there is room for."""
    order = np.lexsort((-length, row))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = np.zeros(len(row), bool)
    kept[order] = rank < rooms[row]
    return kept


def _begins(
    row: _Ints, begin: _Ints, end: _Ints, kept: npt.NDArray[np.bool_], rooms: _Ints
) -> npt.NDArray[np.bool_]:
    """Return whether a bar begins with each span.  A row's time has as many parts as its room."""
    first = begin.min()
    size = np.maximum((end.max() - first) // np.maximum(rooms, 1), 1)
    part = (begin - first) // size[row]
    alone = kept[1:] | kept[:-1] | (row[1:] != row[:-1]) | (part[1:] != part[:-1])
    return np.append(True, alone)


def _mostly(bar: _Ints, what: _Ints, length: _Ints) -> _Ints:
    """Return for each bar the kind with the most time; the first where none takes any."""
    kinds = int(what.max()) + 1
    pairs, place = np.unique(bar * kinds + what, return_inverse=True)
    times = np.bincount(place, length)
    order = np.lexsort((-times, pairs // kinds))
    first = np.flatnonzero(np.diff(pairs[order] // kinds, prepend=-1))
    found: _Ints = (pairs[order] % kinds)[first]
    return found
