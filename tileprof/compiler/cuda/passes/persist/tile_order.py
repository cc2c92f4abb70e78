"""The author's block indices of the tile that a persistent block is at.

In: a launch with its schedule, and the number of a tile.  Out: one index for each axis of the grid,
as `emit/grid.py` computes them for blocks that have one tile each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.compiler.cuda.passes.multicast import cluster_of, in_clusters
from tileprof.compiler.cuda.source import MOST_TILES
from tileprof.ir.scalar import BinaryKind


def indices_of(
    launch: ir.Launch, tile: ir.Value, rank: ir.Value | None, builder: ir.Builder
) -> list[ir.Value]:
    """The indices of a tile.  The blocks of a cluster, of which this one has number `rank`, take
    tiles with neighbouring indices along its axis."""
    names = [a.name for a in launch.body.args]
    if rank is None:
        group = launch.schedule.raster
        return _walked(names, launch.grid, group, tile, builder)
    cluster = cluster_of(launch)
    axis, size = cluster.axis, builder.constant(cluster.size)
    extent, group = in_clusters(launch)
    number = builder.emit(ir.Binary("floordiv", tile, size)).result
    grid, inner = list(launch.grid), list(names)
    grid[axis], inner[axis] = builder.constant(extent), ""
    found = _walked(inner, grid, group, number, builder)
    first = builder.emit(ir.Binary("mul", found[axis], size)).result
    found[axis] = builder.emit(ir.Binary("add", first, rank, hint=names[axis])).result
    return found


def _walked(
    names: Sequence[str], grid: Sequence[ir.Value], group: int, tile: ir.Value, builder: ir.Builder
) -> list[ir.Value]:
    """The first axis fastest, or `group` rows of the second down before the next column."""

    def make(kind: BinaryKind, a: ir.Value, b: ir.Value, name: str = "") -> ir.Value:
        return builder.emit(ir.Binary(kind, a, b, hint=name)).result

    def divided(
        a: ir.Value, b: ir.Value, quotient: str = "", rest: str = ""
    ) -> tuple[ir.Value, ir.Value]:
        """Return quotient and rest.

        A divisor that only the launch knows costs a division, dozens of instructions: one is enough
        for both.
        """
        made = make("floordiv", a, b, quotient)
        if _is_number(b):
            return made, make("floormod", a, b, rest)
        return made, make("sub", a, make("mul", made, b), rest)

    def bounded(a: ir.Value, most: int) -> ir.Value:
        """Return what is no more than `most` in any launch that runs, so that it is known to be."""
        return a if _is_number(a) else make("min", a, builder.constant(most))

    if not group:
        found, left = [], tile
        for name, extent in zip(names[:-1], grid):
            left, index = divided(left, extent, rest=name)
            found.append(index)
        return [*found, left]
    rows = builder.constant(group)
    tail = []
    if len(grid) > 2:
        plane = bounded(make("mul", grid[0], grid[1]), MOST_TILES)
        index, tile = divided(tile, plane, names[2])
        tail = [index]
    # More than all tiles: the first group has all of them.
    wide = bounded(make("mul", grid[0], rows), MOST_TILES)
    number, within = divided(tile, wide)
    if not _is_number(wide):
        # So its first row is below the most tiles, and the last one has 31 bits.
        number = bounded(number, MOST_TILES // group)
    first = make("mul", number, rows)
    height = rows
    count = grid[1].owner
    if not isinstance(count, ir.Constant) or int(count.value) % group:
        height = make("min", make("sub", grid[1], first), rows)
        # It has a row at least: a division of numbers without signs is half as long.
        height = make("max", height, builder.constant(1))
    column, rest = divided(within, height, names[0])
    row = make("add", first, rest, names[1])
    return [column, row, *tail]


def _is_number(value: ir.Value) -> bool:
    """Whether a value is a constant or a product of constants."""
    match value.owner:
        case ir.Constant():
            return True
        case ir.Binary(kind="mul", left=left, right=right):
            return _is_number(left) and _is_number(right)
        case _:
            return False
