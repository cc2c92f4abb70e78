"""Names of `tileprof.compiler`, loaded when one is first used."""

from tileprof.remarks import Remark

from .pipeline import FRONTEND, PASSES, Mode, Options, after
from .program import Program, compile_kernel

__all__ = [
    "FRONTEND", "PASSES", "Mode", "Options", "Program", "Remark", "after", "compile_kernel",
]  # fmt: skip
