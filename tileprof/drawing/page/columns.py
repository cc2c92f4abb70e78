"""Columns of integers in a page: the smallest type that holds them, runs, base64.

A column is `{"all": value, "count": n}` where all values are equal, `{"values": column, "lengths":
column}` where runs of equal values are shorter, and else `{"type": "i16", "data": "…"}` with
little-endian numbers.  `scripts/columns.js` reads it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tileprof.drawing.boxes import Boxes, Ints

Column = dict[str, Any]
_TYPES: Mapping[str, Any] = {
    "u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32,
}  # fmt: skip
"""Types of JavaScript's typed arrays, the smallest first; what fits in none is a float of 64
bits, which is exact up to 2⁵³."""
_RUN = 4
"""Average length from which runs are written as such."""


def column(values: ArrayLike) -> Column:
    """Return integers as a column."""
    held = np.asarray(values, np.int64).reshape(-1)
    if not len(held) or (held == held[0]).all():
        return {"all": int(held[0]) if len(held) else 0, "count": len(held)}
    begins = np.flatnonzero(np.diff(held, prepend=held[0] - 1))
    if len(begins) * _RUN < len(held):
        lengths = np.diff(begins, append=len(held))
        return {"values": _packed(held[begins]), "lengths": _packed(lengths)}
    return _packed(held)


def _packed(held: NDArray[np.int64]) -> Column:
    least, most = int(held.min()), int(held.max())
    for name, kind in _TYPES.items():
        limits = np.iinfo(kind)
        if limits.min <= least and most <= limits.max:
            return {"type": name, "data": _text(held.astype(kind))}
    return {"type": "f64", "data": _text(held.astype(np.float64))}


def _text(held: NDArray[Any]) -> str:
    little = held.astype(held.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")


MOST_BOXES = 60_000
"""Boxes that a page keeps of one tensor, about 0.5 MB; those of the first blocks stay."""


def regions(boxes: Boxes, grid: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the elements of each block: as a sum over the block's indices where that gives the
    boxes of all blocks, else as a table of different regions and the number of each block's."""
    sums = _as_sums(boxes, grid, shape)
    if sums is not None:
        return sums
    total = int(np.prod(np.maximum(grid, 0)))
    kept = total if len(boxes) <= MOST_BOXES else int(boxes.blocks[MOST_BOXES])
    boxes = boxes.at(boxes.blocks < kept)
    rows = np.concatenate([boxes.low, boxes.high], axis=1)
    counts = np.bincount(boxes.blocks, minlength=kept)
    ends = np.cumsum(counts)
    known: dict[bytes, int] = {}
    held: list[Ints] = []
    number = np.zeros(kept, np.int64)
    for block, (begin, end) in enumerate(zip((ends - counts).tolist(), ends.tolist())):
        region = rows[begin:end]
        number[block] = known.setdefault(region.tobytes(), len(known))
        if number[block] == len(held):
            held.append(region)
    rank = boxes.low.shape[1]
    corners = np.concatenate(held) if held else np.zeros((0, 2 * rank), np.int64)
    return {
        "number": column(number),
        "sizes": column([len(region) for region in held]),
        "low": column(corners[:, :rank]),
        "high": column(corners[:, rank:]),
    }


def _as_sums(boxes: Boxes, grid: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, Any] | None:
    """Return for each dimension the first and the last index of block 0 and how much a step along
    each axis of the grid adds; None where that does not give the boxes of all blocks."""
    total = int(np.prod(np.maximum(grid, 0)))
    if not len(boxes) or len(np.unique(boxes.blocks)) < len(boxes) or boxes.blocks[0]:
        return None
    position = np.full(total, -1, np.int64)
    position[boxes.blocks] = np.arange(len(boxes))
    strides = np.cumprod([1, *grid[:-1]])
    neighbours = [int(position[s]) if extent > 1 else 0 for s, extent in zip(strides, grid)]
    if min(neighbours) < 0:
        return None
    blocks = np.arange(total)
    indices = [blocks // stride % extent for stride, extent in zip(strides, grid)]
    found: dict[str, Any] = {}
    ends = []
    for name, held in (("low", boxes.low), ("high", boxes.high)):
        steps = np.stack([held[at] - held[0] for at in neighbours])
        ends.append(held[0] + sum(i[:, None] * step for i, step in zip(indices, steps)))
        found[name] = np.concatenate([held[:1], steps]).T.tolist()
    low, high = ends[0], np.minimum(ends[1], np.array(shape, np.int64))
    inside = (high > low).all(axis=1)
    same = np.array_equal(np.flatnonzero(inside), boxes.blocks)
    if same and (low[inside] == boxes.low).all() and (high[inside] == boxes.high).all():
        return found
    return None
