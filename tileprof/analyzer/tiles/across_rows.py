"""Whether blocks that run at the same time read and write across the rows of tensors.

In: a kernel.  Out: `Across`: the axis of the grid that is counted fastest, and the one that goes
along rows, where all tensors of two dimensions or more are walked across their rows. Where one is
walked along them, as in a transpose, no order of the axes is better for all.

    grid (by, bx):  Y[by * 16 + i, bx * 128 + j]      neighbours are 16 rows apart
    grid (bx, by):  Y[by * 16 + i, bx * 128 + j]      neighbours go on where a block ends
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op, TileKernel

_ACCESSES = ("load", "store", "view", "atomic", "tile_atomic")


@dataclass(frozen=True, slots=True)
class Across:
    """Axes of a grid."""

    first: str
    """That is counted fastest, and goes across rows."""
    along: str
    """That goes along them."""
    tensors: tuple[str, ...]


@lru_cache(maxsize=2)
def across_rows(kernel: TileKernel) -> Across | None:
    """Of a kernel of one launch; None where its blocks go along rows, or its grid is not known."""
    launches, effects = list(kernel.named("launch")), effects_of(kernel)
    if len(launches) != 1:
        return None
    extents = [effects.values.number(name) for name in launches[0].listed]
    axes = [name for name, each in zip(launches[0].arguments, extents) if (each or 0) > 1]
    if len(axes) < 2 or None in extents:
        return None
    first, along, tensors = axes[0], set[str](), list[str]()
    for op, _ in kernel.nested:
        tensor = _tensor(effects, op)
        if not tensor or len(op.listed) < 2:
            continue
        *outer, last = (effects.used(name).intersection(axes) for name in op.listed)
        if first in last:
            return None
        if last and any(first in each for each in outer):
            along |= last
            tensors.append(tensor[1:])
    return Across(first[1:], min(along)[1:], tuple(dict.fromkeys(tensors))) if along else None


def _tensor(effects: Effects, op: Op) -> str:
    """The tensor in global memory that an op accesses by indices."""
    if op.name not in _ACCESSES or not op.operands or not op.lists:
        return ""
    return next((each for each in op.operands if each in effects.kernel.extents), "")
