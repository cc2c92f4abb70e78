"""All operators of the fifth test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `FIFTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.later.operators import _either
from plant.generated.operators import Operator

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["FIFTH"]

_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("pair-input", "defect", _BOTH, _either(tile.paired, triton.paired),
             "Sectors of which half is used."),
)  # fmt: skip
FIFTH: tuple[Operator, ...] = (*_SHARED, *tile.OPERATORS, *triton.OPERATORS)
