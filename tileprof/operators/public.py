"""Names of `tileprof.operators`, loaded when one is first used."""

from tileprof.operators.decorator import op

__all__ = ["op"]
