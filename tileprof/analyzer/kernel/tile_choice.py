"""What products take in tiles of another size, where the last round of tiles is not full.

In: a kernel of products with its launch.  Out: of its time, what it takes in the best of the other
tiles.

    176 tiles of 128 × 192 on 132 multiprocessors     2 rounds      of 1
    132 tiles of 128 × 256                            1 round       of 4/3: 2/3 of the time

A tile is a few warp groups high and some columns wide, so there are not many sizes: one edge is
changed by a part. A larger one has to fit into registers. A round takes as long as its tile is
large, but no less than its loads are under way, which run ahead by as many turns as before.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import Launch
from tileprof.analyzer.kernel.pace import pace_of
from tileprof.analyzer.machine.code import PRODUCTS
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.numbers.kernels import TILE_CHOICE_MOST, TILE_CHOICE_STEPS
from tileprof.analyzer.tiles.rings import rings_of
from tileprof.kernel_ir import PRODUCTS as OPS

_SIZES = tuple(map(Fraction, ("1/2", "2/3", "3/4", "4/3", "3/2", "2")))
"""Of a tile, by that which there is."""


def best_of_others(case: KernelCase, launch: Launch) -> float:
    """Of its time, what it takes in the best of the other tiles; 1 where none is better."""
    now, least = math.ceil(launch.rounds), under_way(case)
    tiles, full = _results(case), Fraction(launch.pieces, launch.at_once)
    sizes = (size for size in _SIZES if all(_is_tile(each, size) for each in tiles))
    taken = (math.ceil(full / size) * max(float(size), least) / now for size in sizes)
    return min((1.0, *taken))


def under_way(case: KernelCase) -> float:
    """Of a turn, the least that is left where all multiprocessors load; 0 where not known."""
    code, rings = case.sampled, rings_of(case.tiles)
    loops = loops_with(code, PRODUCTS) if code else ()
    if code is None or not loops or not rings:
        return 0.0
    pace = pace_of(case, code, max(loops, key=code.n), rings[0].stage_bytes)
    return min(1.0, pace.late(rings[0].stages - 1))


def _results(case: KernelCase) -> list[tuple[int, ...]]:
    """The extents of tiles of sums, as far as they are known."""
    names = {op.operands[2] for op in case.tiles.named(*OPS) if len(op.operands) > 2}
    types = (case.tiles.types[name] for name in names if name in case.tiles.types)
    return [each.extents for each in types if each.extents]


def _is_tile(extents: tuple[int, ...], size: Fraction) -> bool:
    """Whether one edge can be changed by that part."""
    fits = any(extent * size % step == 0 for extent, step in zip(extents, TILE_CHOICE_STEPS))
    return fits and math.prod(extents) * size <= TILE_CHOICE_MOST
