"""All operators of the fourth test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `FRESH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.later.operators import _either
from plant.generated.operators import Operator

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["FRESH"]

_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("atomic-each", "defect", _BOTH, _either(tile.atomic_each, triton.atomic_each),
             "An atomic for each element."),
    Operator("longest-row", "defect", _BOTH, _either(tile.longest_row, triton.longest_row),
             "Iterations without work."),
)  # fmt: skip
FRESH: tuple[Operator, ...] = (
    *_SHARED, *tile.OPERATORS, *triton.OPERATORS, *tile.DECOYS, *triton.DECOYS
)  # fmt: skip
