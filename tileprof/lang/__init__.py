"""The language of kernels: `import tileprof.lang as T`.

The core of TileLang under its own names and meaning, and `T.scope`.  In: a Python function.  Out:
an `ir.Kernel`, or its results when it is called.  The names here are thin: each hands its arguments
to the active context (`context.py`); tracing (`trace/`) is one, running as plain Python another.
"""

from typing import TYPE_CHECKING, Any

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *

    def __getattr__(name: str) -> Any:
        """Give an element type or a fast-math function."""
else:
    __getattr__, __dir__ = names_of(__name__)
