"""Names of `tileprof.drawing`, loaded when one is first used."""

from .run import Drawing, show

__all__ = ["Drawing", "show"]
