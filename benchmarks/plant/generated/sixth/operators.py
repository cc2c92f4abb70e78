"""All operators of the sixth test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `SIXTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.later.operators import _either
from plant.generated.operators import Operator

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["SIXTH"]

_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("compensate-sum", "defect", _BOTH, _either(tile.compensated, triton.compensated),
             "Four additions for one."),
    Operator("count-visits", "defect", _BOTH, _either(tile.counted, triton.counted),
             "All blocks meet at one number."),
)  # fmt: skip
SIXTH: tuple[Operator, ...] = (*_SHARED, *tile.OPERATORS, *triton.OPERATORS)
