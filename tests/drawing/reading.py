"""Reads the data of a page as its scripts do: columns, regions of blocks, steps."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"u8": "<u1", "i8": "<i1", "u16": "<u2", "i16": "<i2", "i32": "<i4", "f64": "<f8"}
Box = tuple[tuple[int, ...], tuple[int, ...]]


def unpacked(held: dict[str, Any]) -> NDArray[np.int64]:
    """The numbers of a column."""
    if "all" in held:
        return np.full(held["count"], held["all"], np.int64)
    if "values" in held:
        return np.repeat(unpacked(held["values"]), unpacked(held["lengths"]))
    return np.frombuffer(base64.b64decode(held["data"]), KINDS[held["type"]]).astype(np.int64)


def boxes(held: dict[str, Any], grid: list[int], shape: list[int], block: int) -> list[Box]:
    """The boxes of a block in the regions of a tensor."""
    if "number" not in held:
        at, rest = [1], block
        for extent in grid:
            rest, index = divmod(rest, extent)
            at.append(index)
        low = tuple(int(np.dot(steps, at)) for steps in held["low"])
        ends = (int(np.dot(steps, at)) for steps in held["high"])
        high = tuple(map(min, ends, shape))
        return [(low, high)] if all(a < b for a, b in zip(low, high)) else []
    rank, sizes = len(shape), unpacked(held["sizes"])
    number = unpacked(held["number"])[block]
    begin, end = int(sizes[:number].sum()), int(sizes[: number + 1].sum())
    corners = (unpacked(held[name]).reshape(-1, rank)[begin:end] for name in ("low", "high"))
    return [(tuple(low), tuple(high)) for low, high in zip(*(each.tolist() for each in corners))]


def elements(found: list[Box]) -> set[tuple[int, ...]]:
    """Indices of all elements in boxes."""
    return {
        tuple(int(a + b) for a, b in zip(low, place))
        for low, high in found
        for place in np.ndindex(*(b - a for a, b in zip(low, high)))
    }
