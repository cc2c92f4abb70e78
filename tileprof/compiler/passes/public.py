"""Names of `tileprof.compiler.passes`, loaded when one is first used."""

from .bounds import prove_bounds
from .decisions import decide
from .overlaps import set_aside
from .simplification import simplify

__all__ = ["decide", "prove_bounds", "set_aside", "simplify"]
