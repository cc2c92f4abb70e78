"""Memory in pages of its own for what grows while a program runs.

In: a number of bytes.  Out: zeroed pages, of which only those that are written take memory, unless
they are to be resident from the begin, and which go back to the system with the last reference.
"""

from __future__ import annotations

import mmap

__all__ = ["pages"]


def pages(size: int, resident: bool = False) -> mmap.mmap:
    """Return at least `size` bytes, 1 or more; a forked child has a copy of them."""
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if resident:
        flags |= getattr(mmap, "MAP_POPULATE", 0)  # of Linux alone
    return mmap.mmap(-1, whole, flags=flags)
