"""Program to binary: the passes, the C++ text, the system compiler and its cache.

In: a traced `ir.Kernel` and options.  Out: a `Program`: the kernel after all passes, its source,
its remarks, its work (flops, bytes).  Nothing here runs a kernel or prints.

To add a pass: one file in `passes/` and one line in `pipeline.py`.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
