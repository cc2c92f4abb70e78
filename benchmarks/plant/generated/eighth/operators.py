"""All operators of the eighth test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `EIGHTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.operators import Operator

__all__ = ["EIGHTH"]

EIGHTH: tuple[Operator, ...] = ()
