"""All operators of the eighth test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `EIGHTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.later.operators import _either
from plant.generated.operators import Operator

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["EIGHTH"]

_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("prefetch-by-hand", "defect", _BOTH, _either(tile.prefetched, triton.prefetched),
             "Registers hold what a pipeline would, and each load is waited for."),
    Operator("alternate-sums", "defect", _BOTH, _either(tile.alternated, triton.alternated),
             "Twice the registers for a sum."),
    Operator("promote-sums", "defect", _BOTH, _either(tile.promoted, triton.promoted),
             "Each term is waited for, scaled by one and added."),
    Operator("residual-product", "defect", _BOTH, _either(tile.residual, triton.residual),
             "A second product whose factors are zeros."),
    Operator("count-down", "decoy", _BOTH, _either(tile.upside_down, triton.upside_down),
             "The same iterations in the other order."),
    Operator("fold-grid", "decoy", _BOTH, _either(tile.folded, triton.folded),
             "One division a block."),
)  # fmt: skip
EIGHTH: tuple[Operator, ...] = (*_SHARED, *tile.OPERATORS, *triton.OPERATORS)
