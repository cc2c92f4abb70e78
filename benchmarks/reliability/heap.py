"""Figures of the C library's heaps.

In: nothing.  Out: `mallinfo2` of glibc.
"""

from __future__ import annotations

import ctypes

__all__ = ["Mallinfo", "mallinfo"]


class Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of the C library."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks",
                     "uordblks", "fordblks", "keepcost")
    )  # fmt: skip


def mallinfo() -> Mallinfo | None:
    """Return what glibc says of its heaps; None with another C library."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    mallinfo2.restype = Mallinfo
    found: Mallinfo = mallinfo2()
    return found
