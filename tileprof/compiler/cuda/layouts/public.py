"""Names of `tileprof.compiler.cuda.layouts`, loaded when one is first used."""

from .registers import Digit, RegisterLayout, blocked, parse_layout
from .shared import SharedLayout, parse_shared

__all__ = ["Digit", "RegisterLayout", "SharedLayout", "blocked", "parse_layout", "parse_shared"]
