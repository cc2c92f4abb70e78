"""Elements that each block accesses, as boxes: a few numbers in place of every element.

A box is a range of indices in each dimension.  An access whose index in each dimension follows axes
of its own is one box a block; any other is cut into runs of elements.  Both are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof.runtime.events.access import Access

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of blocks: box n is of block `blocks[n]`, from `low[n]` to `high[n]`, exclusive."""

    blocks: Ints
    low: Ints
    """Least index in each dimension: int64[boxes, rank]."""
    high: Ints

    def __len__(self) -> int:
        return len(self.blocks)

    def at(self, chosen: Any) -> Boxes:
        """Return the boxes at these positions."""
        return Boxes(self.blocks[chosen], self.low[chosen], self.high[chosen])

    @staticmethod
    def joined(parts: Iterable[Boxes], rank: int) -> Boxes:
        """Return all boxes of the parts."""
        held = [Boxes(*(np.zeros((0, *s), np.int64) for s in ((), (rank,), (rank,)))), *parts]
        return Boxes(
            np.concatenate([each.blocks for each in held]),
            np.concatenate([each.low for each in held]),
            np.concatenate([each.high for each in held]),
        )


def taking_part(access: Access) -> Access:
    """Return the access of the blocks that have an active lane, where the mask is by block alone;
    the mask is then True.  Any other access is returned as it is."""
    mask = access.mask
    if mask is True or math.prod(np.shape(mask)[1:]) > 1:
        return access
    kept = np.broadcast_to(np.asarray(mask).reshape(-1), len(access.blocks))
    if kept.all():
        return replace(access, mask=True)
    return replace(access.of_blocks(np.flatnonzero(kept)), mask=True)


def boxes_of(access: Access) -> Boxes:
    """Return the elements inside the buffer that an access of `taking_part` names."""
    found = _separable(access) if access.mask is True else None
    return _runs(access) if found is None else found


def _separable(access: Access) -> Boxes | None:
    """Return one box a block, or None where the elements of some block are no box that follows from
    the ranges of the dimensions."""
    count, rank = len(access.blocks), len(access.sizes)
    low, high = np.zeros((count, rank), np.int64), np.ones((count, rank), np.int64)
    taken: set[int] = set()
    for axis, (start, size, extent) in enumerate(
        zip(access.starts, access.sizes, access.buffer.shape)
    ):
        begins = np.asarray(start, np.int64)
        if begins.ndim and math.prod(begins.shape[1:]) > 1:
            axes = {at for at, length in enumerate(begins.shape[1:]) if length > 1}
            if axes & taken:
                return None
            taken |= axes
            begins = np.sort(begins.reshape(begins.shape[0], -1), axis=1)
            if np.diff(begins, axis=1).max() > size:
                return None
            low[:, axis], high[:, axis] = begins[:, 0], begins[:, -1] + size
        else:
            low[:, axis] = begins.reshape(-1)
            high[:, axis] = low[:, axis] + size
        np.clip(low[:, axis], 0, None, low[:, axis])
        np.clip(high[:, axis], None, extent, high[:, axis])
    held = np.flatnonzero((high > low).all(axis=1))
    return Boxes(access.blocks, low, high).at(held)


def _runs(access: Access) -> Boxes:
    """Return the elements as boxes that span one dimension, the last one."""
    owners, numbers = access.flat()
    shape = access.buffer.shape
    total, row = math.prod(shape), (shape[-1] if shape else 1)
    keys = np.unique(owners * total + numbers)
    begins = np.flatnonzero((np.diff(keys, prepend=keys[:1] - 2) != 1) | (keys % row == 0))
    length = np.diff(begins, append=len(keys))
    block, number = np.divmod(keys[begins], max(total, 1))
    low = np.stack(np.unravel_index(number, shape), axis=-1) if shape else number.reshape(-1, 0)
    high = low + 1
    if shape:
        high[:, -1] = low[:, -1] + length
    return Boxes(block, low.astype(np.int64), high.astype(np.int64))


@dataclass(eq=False)
class Cover:
    """Boxes of the blocks of a grid, grown access by access: a box that joins the block's last one
    to a larger box is not kept apart."""

    blocks: int
    rank: int
    _low: Ints = field(init=False)
    _high: Ints = field(init=False)
    _rest: list[Boxes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._low = np.zeros((self.blocks, self.rank), np.int64)
        self._high = np.full((self.blocks, self.rank), -1, np.int64)
        """-1 in blocks without a box; also tells rank 0 apart, whose boxes have no range."""

    def add(self, boxes: Boxes) -> None:
        """Add boxes; those of one block are added in order."""
        if not self.rank or len(np.unique(boxes.blocks)) < len(boxes):
            self._rest.append(boxes)
            return
        at, low, high = boxes.blocks, boxes.low, boxes.high
        last_low, last_high = self._low[at], self._high[at]
        empty = last_high[:, 0] < 0
        differing = ((last_low != low) | (last_high != high)).sum(axis=1)
        touching = ((low <= last_high) & (last_low <= high)).all(axis=1)
        inside = ((last_low <= low) & (high <= last_high)).all(axis=1)
        around = ((low <= last_low) & (last_high <= high)).all(axis=1)
        joins = ((differing <= 1) & touching | inside | around) & ~empty
        kept = np.flatnonzero(~joins & ~empty)
        if len(kept):
            self._rest.append(Boxes(at[kept], last_low[kept], last_high[kept]))
        wide = joins[:, None]
        self._low[at] = np.where(wide, np.minimum(last_low, low), low)
        self._high[at] = np.where(wide, np.maximum(last_high, high), high)

    def boxes(self) -> Boxes:
        """Return all boxes, by block; some may overlap."""
        at = np.flatnonzero(self._high[:, 0] >= 0) if self.rank else np.zeros(0, np.int64)
        last = Boxes(at, self._low[at], self._high[at])
        return Boxes.joined([*self._rest, last], self.rank)


def united(boxes: Boxes) -> Boxes:
    """Return boxes of the same elements of each block, sorted by block, with each box only once and
    neighbours joined.  Boxes of a block may overlap."""
    rank = boxes.low.shape[1]
    if not rank:
        return Boxes.joined([boxes.at(np.unique(boxes.blocks, return_index=True)[1])], 0)
    rows = np.concatenate([boxes.blocks[:, None], boxes.low, boxes.high], axis=1)
    rows = np.unique(rows, axis=0)
    for axis in reversed(range(rank)):
        rows = _joined_along(rows, 1 + axis, 1 + rank + axis)
    rows = _without_inner(rows, rank)
    rows = rows[np.lexsort(rows.T[::-1])]
    return Boxes(rows[:, 0], rows[:, 1 : 1 + rank], rows[:, 1 + rank :])


def _joined_along(rows: Ints, low: int, high: int) -> Ints:
    """Join rows that differ only in the range of columns `low` to `high`, where ranges touch."""
    others = [column for column in range(rows.shape[1]) if column not in (low, high)]
    rows = rows[np.lexsort([rows[:, low], *(rows[:, column] for column in reversed(others))])]
    same = (rows[1:, others] == rows[:-1, others]).all(axis=1)
    # Number of the group is added so that one running maximum serves all groups.
    group = np.concatenate([[0], np.cumsum(~same)]) if len(rows) else np.zeros(0, np.int64)
    reach = int(rows[:, high].max(initial=0)) + 1
    furthest = np.maximum.accumulate(rows[:, high] + group * reach)
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = ~same | (rows[1:, low] + group[1:] * reach > furthest[:-1])
    first = np.flatnonzero(starts)
    joined = rows[first].copy()
    if len(first):
        joined[:, high] = np.maximum.reduceat(rows[:, high], first)
    return joined


_COMPARED = 64
"""Boxes of a block among which those inside another one are looked for: the work grows with the
square."""


def _without_inner(rows: Ints, rank: int) -> Ints:
    _, begins, counts = np.unique(rows[:, 0], return_index=True, return_counts=True)
    if not (counts > 1).any():
        return rows
    kept = np.ones(len(rows), np.bool_)
    for begin, count in zip(begins.tolist(), counts.tolist()):
        if not 1 < count <= _COMPARED:
            continue
        low = rows[begin : begin + count, 1 : 1 + rank]
        high = rows[begin : begin + count, 1 + rank :]
        inside: Any = (low[None] <= low[:, None]).all(2) & (high[:, None] <= high[None]).all(2)
        np.fill_diagonal(inside, False)
        kept[begin : begin + count] = ~inside.any(axis=1)
    return rows[kept]


def covered(boxes: Boxes) -> int:
    """Return the number of different elements in all boxes together."""
    rank = boxes.low.shape[1]
    if not len(boxes) or not rank:
        return min(len(boxes), 1)
    corners = np.unique(np.concatenate([boxes.low, boxes.high], axis=1), axis=0)
    low, high = corners[:, :rank], corners[:, rank:]
    edges = [np.unique(np.concatenate([low[:, d], high[:, d]])) for d in range(rank)]
    if rank == 1:
        return _covered_line(low[:, 0], high[:, 0])
    begins = [np.searchsorted(edge, low[:, d]).tolist() for d, edge in enumerate(edges)]
    ends = [np.searchsorted(edge, high[:, d]).tolist() for d, edge in enumerate(edges)]
    cells = np.zeros([max(len(edge) - 1, 1) for edge in edges], np.bool_)
    for begin, end in zip(zip(*begins), zip(*ends)):
        cells[tuple(map(slice, begin, end))] = True
    count: Any = cells
    for edge in reversed(edges):
        count = count @ np.diff(edge)
    return int(count)


def _covered_line(low: Ints, high: Ints) -> int:
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    before = np.concatenate([low[:1], reach[:-1]])
    return int(np.maximum(reach - np.maximum(low, before), 0).sum())
