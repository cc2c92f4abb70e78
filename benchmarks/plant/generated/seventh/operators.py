"""All operators of the seventh test split: those of both languages, of tile kernels, of Triton's.

In: nothing.  Out: `SEVENTH`, which `mutants` puts behind those of earlier splits.
"""

from __future__ import annotations

from plant.generated.operators import Operator

__all__ = ["SEVENTH"]

SEVENTH: tuple[Operator, ...] = ()
