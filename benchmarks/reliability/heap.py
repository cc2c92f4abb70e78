"""Figures of the C library's heaps.

In: nothing.  Out: `mallinfo2` of glibc, and where `heap_by_library.c` is preloaded what each
library holds.

    cc -O2 -shared -fPIC -o heap.so benchmarks/reliability/heap_by_library.c
    LD_PRELOAD=./heap.so python -m benchmarks.reliability.soak --seconds 120 -o soak.json

With `HEAP_TOLD=told.txt` besides, each large allocation is told as it is made; at its end the soak
writes `told.libraries.txt`, which names the library of each.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Mallinfo", "by_library", "mallinfo", "told_by_library", "told_here"]


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


def by_library() -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Return the bytes that each library holds on the heap, and its blocks of 512 KB or more.

    Both are empty where nothing counts them.
    """
    try:
        count = ctypes.CDLL(None).heap_by_library
    except AttributeError:
        return {}, []
    count.restype = ctypes.c_size_t
    count.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(1 << 20)
    count(text, len(text))
    held: dict[str, int] = {}
    blocks: list[tuple[str, int]] = []
    for line in text.value.decode(errors="replace").splitlines():
        first, second, path = line.split(" ", 2)
        name = path.rpartition("/")[2]
        if first == "block":
            blocks.append((name, int(second)))
        else:
            held[name] = held.get(name, 0) + int(first)
    return held, sorted(blocks)


def told_by_library(lines: Iterable[str], maps: str) -> list[str]:
    """Return what `HEAP_TOLD` tells, with the library in place of the caller's address.

    Args:
        lines: of the file.
        maps: text of `/proc/PID/maps` of the process, from when it ran.
    """
    places = []
    for line in maps.splitlines():
        span, *_, path = line.split(maxsplit=5)
        first, _, last = span.partition("-")
        if path.startswith("/"):
            places.append((int(first, 16), int(last, 16), path.rpartition("/")[2]))
    found = []
    for line in lines:
        *words, caller = line.split()
        address = int(caller, 16)
        held = (name for first, last, name in places if first <= address < last)
        found.append(" ".join([*words, next(held, caller)]))
    return found


def told_here() -> None:
    """Name the libraries in the file of `HEAP_TOLD`, beside it, while this process still runs."""
    if name := os.environ.get("HEAP_TOLD"):
        path, maps = Path(name), Path("/proc/self/maps").read_text()
        lines = told_by_library(path.read_text().splitlines(), maps)
        path.with_suffix(".libraries.txt").write_text("\n".join(lines) + "\n")
