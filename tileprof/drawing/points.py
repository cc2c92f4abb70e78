"""Points of a loop with a layout, by the instructions that access them.

In: a layout.  Out: row-major numbers of points, int64[instructions, warps, 32], -1 for a lane that
takes no part; the same in another order, or without what is asked for twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.layouts.turns import Turn

Ints = NDArray[np.int64]
_WARP = 32


def places_of(points: Ints, shape: tuple[int, ...]) -> Ints:
    """Return the index of each lane's point along each axis of a loop, -1 for a lane that takes no
    part: int64[instructions, warps, 32, axes]."""
    places = np.stack(np.unravel_index(np.maximum(points, 0), shape), axis=-1)
    return np.where(points[..., None] >= 0, places, -1)


def once_along(points: Ints, shape: tuple[int, ...], axes: list[int]) -> Ints:
    """Return the instructions that differ along `axes`: one text of an address is loaded once."""
    keys = places_of(points, shape)[..., axes].reshape(len(points), -1)
    return points[np.sort(np.unique(keys, axis=0, return_index=True)[1])]


def in_turns(points: Ints, layout: RegisterLayout, turn: Turn, width: int) -> Ints:
    """Return the points of stores in the order of the lanes that begin with another register."""
    apart = 1
    for digit in layout.registers[width.bit_length() - 1 :]:
        if digit.step == turn.step:
            break
        apart *= digit.radix
    other = points[np.arange(len(points)) ^ apart]
    exchanged = (np.arange(_WARP) >> turn.lane_bit & 1).astype(np.bool_)
    return np.where(exchanged, other, points)


def points_of(layout: RegisterLayout, width: int, once: bool) -> Ints:
    """Return the point of the first element of each lane's access: int64[instructions, warps, 32].
    Of threads that hold one point only the first takes part where it is done `once`."""
    table = layout.table()[:, ::width]
    inside = (table < np.array(layout.shape, np.int64)).all(axis=-1)
    clipped = np.minimum(table, np.array(layout.shape, np.int64) - 1)
    strides = np.cumprod([1, *layout.shape[:0:-1]])[::-1]
    number = np.where(inside, (clipped * strides).sum(axis=-1), -1)
    if once:
        number = np.where(first_of_each(number), number, -1)
    return np.ascontiguousarray(number.T.reshape(number.shape[1], -1, _WARP))


def first_of_each(numbers: Ints) -> NDArray[np.bool_]:
    """Return where each number stands for the first time, in row-major order."""
    first = np.zeros(numbers.size, np.bool_)
    first[np.unique(numbers, return_index=True)[1]] = True
    return first.reshape(numbers.shape)
