"""All operators of the seventh test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `SEVENTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.later.operators import _either
from plant.generated.operators import Operator

from . import tile_operators as tile
from . import triton_operators as triton

__all__ = ["SEVENTH"]

_BOTH = frozenset(("tile", "triton"))
_SHARED = (
    Operator("running-mean", "defect", _BOTH, _either(tile.averaged, triton.averaged),
             "A division for each addition."),
    Operator("chop-loop", "defect", _BOTH, _either(tile.chopped, triton.chopped),
             "Loads do not run ahead of the next part."),
    Operator("track-amax", "defect", _BOTH, _either(tile.watched, triton.watched),
             "Warps meet, and all blocks meet at one number."),
    Operator("drop-nans", "defect", _BOTH, _either(tile.cleaned, triton.cleaned),
             "What is loaded is read and written once more."),
    Operator("skip-zeros", "defect", _BOTH, _either(tile.skipped, triton.skipped),
             "Products wait for a search."),
    Operator("split-exponential", "defect", _BOTH, _either(tile.split, triton.split),
             "Two functions for one."),
)  # fmt: skip
SEVENTH: tuple[Operator, ...] = (*_SHARED, *tile.OPERATORS, *triton.OPERATORS)
