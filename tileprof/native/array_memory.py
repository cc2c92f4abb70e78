"""Arrays of NumPy that threads of ours make again and again, in pages of their own.

In: the thread that calls.  Out: from then on its large arrays take no part of a heap of `malloc`'s,
and go back to the system when they are freed.  A thread of ours that makes the same arrays every
few seconds, of sizes that vary, would keep a heap of the largest ones together.
"""

from __future__ import annotations

import sys

import numpy as np

_TABLES = tuple(f"numpy.{core}._multiarray_umath" for core in ("_core", "core"))
"""Modules that hold NumPy's table of functions: since version 2, and before."""


def arrays_in_pages() -> bool:
    """Have large arrays of the calling thread in pages; return whether they are.

    They are not where the recorder is not installed, or NumPy has no such interface.
    """
    try:
        from tileprof.native import _recorder
    except ImportError:
        return False
    module = next((sys.modules[name] for name in _TABLES if name in sys.modules), np)
    table = getattr(module, "_ARRAY_API", None)
    return table is not None and _recorder.set_array_pages(table)
