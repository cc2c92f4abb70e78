"""Register layouts to choose from when nothing fixes one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .registers import Digit, RegisterLayout, unit


def distributed(
    shape: Sequence[int],
    threads: int,
    vector: int,
    lane_order: Sequence[int],
    warp_order: Sequence[int],
    lanes_first: int = 32,
) -> RegisterLayout:
    """`vector` elements along the first dimension of `lane_order` in registers, then lanes along
    the dimensions of `lane_order` (at most `lanes_first` along its first), then warps along those
    of `warp_order`; the rest repeats in registers, and threads left over hold copies."""
    rank, warps = len(shape), threads // 32
    reach = [1] * rank
    registers: list[Digit] = []
    held: dict[str, list[Digit]] = {"lanes": [], "warps": []}

    def grow(kind: str, dim: int, radix: int) -> None:
        held[kind].append(Digit(radix, unit(rank, dim, reach[dim])))
        reach[dim] *= radix

    if vector > 1:
        registers.append(Digit(vector, unit(rank, lane_order[0], 1)))
        reach[lane_order[0]] = vector
    free = 32
    for position, dim in enumerate(lane_order):
        limit = 32 // lanes_first if position == 0 else 1
        while reach[dim] < shape[dim] and free > limit:
            grow("lanes", dim, 2)
            free //= 2
    copy = (0,) * rank
    held["lanes"].append(Digit(free, copy))
    even = warps & -warps
    odd = warps // even
    for dim in warp_order:
        while reach[dim] < shape[dim] and even > 1:
            grow("warps", dim, 2)
            even //= 2
        # An odd number of warps divides what it divides; elsewhere these warps hold copies.
        if odd > 1 and reach[dim] < shape[dim] and -(-shape[dim] // reach[dim]) % odd == 0:
            grow("warps", dim, odd)
            odd = 1
    held["warps"] += [Digit(even, copy), Digit(odd, copy)]
    for dim in lane_order:
        if reach[dim] < shape[dim]:
            registers.append(Digit(-(-shape[dim] // reach[dim]), unit(rank, dim, reach[dim])))
    return RegisterLayout.make(shape, registers, held["lanes"], held["warps"])


def candidates(
    shape: Sequence[int], threads: int, widest: int, dims: Sequence[int]
) -> Iterator[RegisterLayout]:
    """Layouts worth counting: vectors of up to `widest` elements along each of `dims`, lanes along
    it or square, warps along it or along the other dimensions first."""
    rank = len(shape)
    seen: set[RegisterLayout] = set()
    if not rank:
        yield distributed(shape, threads, 1, (), ())
    for dim in dims:
        others = [d for d in reversed(range(rank)) if d != dim]
        lane_order = [dim, *others]
        for vector in _vectors(shape[dim], widest):
            for warp_order in (lane_order, [*reversed(others), dim]):
                for lanes_first in _lanes_first(shape, dim, vector, square=len(dims) > 1):
                    made = distributed(shape, threads, vector, lane_order, warp_order, lanes_first)
                    if made not in seen:
                        seen.add(made)
                        yield made


def _lanes_first(shape: Sequence[int], dim: int, vector: int, *, square: bool) -> Iterator[int]:
    """Yield how many lanes may lie along a dimension, all of them first; `square`: the others may
    be worth lying along another dimension.

    Of the 24 vectors of a row, 32 lanes would leave 8 without work: 8 lanes have three each, and
    the others work on other rows.
    """
    yield 32
    vectors = shape[dim] // vector
    even = vectors & -vectors
    rows = math.prod(shape) // shape[dim]
    if even < min(vectors, 32) and rows * even >= 32:
        yield even
    if square:
        yield 8


def _vectors(extent: int, widest: int) -> Iterator[int]:
    """Powers of two that divide the extent, widest first."""
    vector = widest
    while vector >= 1:
        if extent % vector == 0:
            yield vector
        vector //= 2
