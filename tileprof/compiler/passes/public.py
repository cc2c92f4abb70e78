"""Names of `tileprof.compiler.passes`, loaded when one is first used."""

from .bounds import prove_bounds
from .simplification import simplify

__all__ = ["prove_bounds", "simplify"]
