"""Program to binary: the passes, the C++ text, the system compiler and its cache.

In: a traced `ir.Kernel` and options.  Out: a `Program`: the kernel after all passes, its source,
its remarks, its work (flops, bytes).  Nothing here runs a kernel or prints.

To add a pass: one file in `passes/` and one line in `pipeline.py`.
"""

from tileprof.remarks import Remark

from .pipeline import FRONTEND, PASSES, Mode, Options, after
from .program import Program, compile_kernel

__all__ = [
    "FRONTEND", "PASSES", "Mode", "Options", "Program", "Remark", "after", "compile_kernel",
]  # fmt: skip
