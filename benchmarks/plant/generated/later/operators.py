"""All operators of the third test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `LATER`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from plant.generated.operators import Operator, Site
from plant.generated.programs import Program

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["LATER"]


def _either(
    one: Callable[[Program], Iterator[Site]], other: Callable[[Program], Iterator[Site]]
) -> Callable[[Program], Iterator[Site]]:
    """Return sites by whichever function a program's language has any of."""

    def sites(program: Program) -> Iterator[Site]:
        yield from one(program)
        yield from other(program)

    return sites


_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("clamp-index", "defect", _BOTH, _either(tile.clamped, triton.clamped),
             "Neighbours that are not known as such."),
    Operator("copy-result", "defect", _BOTH, _either(tile.copied_result, triton.copied_result),
             "The result is read and written again."),
    Operator("double-sum", "defect", _BOTH, _either(tile.double_sums, triton.double_sums),
             "Sums of float64."),
)  # fmt: skip
LATER: tuple[Operator, ...] = (
    *_SHARED, *tile.OPERATORS, *triton.OPERATORS, *tile.DECOYS, *triton.DECOYS
)  # fmt: skip
