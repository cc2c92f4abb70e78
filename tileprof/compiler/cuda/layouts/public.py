"""Names of `tileprof.compiler.cuda.layouts`, loaded when one is first used."""

from .registers import Digit, RegisterLayout, blocked, fragment_layout, parse_layout
from .shared import SharedLayout, parse_shared

__all__ = [
    "Digit", "RegisterLayout", "SharedLayout", "blocked", "fragment_layout", "parse_layout",
    "parse_shared",
]  # fmt: skip
