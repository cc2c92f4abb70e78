"""Bytes that the copy engine (TMA) fetches or stores for tiles of global memory.

In: where tiles begin, and how their tensor lies.  Out: bytes.  The engine moves whole sectors of
each row of a box.  When it loads, it fills in what lies outside of the tensor, whole rows too,
sector by sector: the counter has both.  When it stores, what lies outside costs nothing.

Counters of launches on an H200 (`l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld`): tiles that
are inside, of tensors whose rows are multiples of 64 bytes, take their own bytes (12 kernels,
2026-11-28 and 2026-11-29).  Tiles whose rows begin in the middle of a sector rest on two products
(rows of 272 and of 304 bytes), tiles with rows outside on one (150 rows in tiles of 64), and tiles
cut in the middle of a sector on that of rows of 272 bytes.  Stores of rows that begin in the middle
of a sector rest on one product (`…_write_bytes_mem_global_op_tma_st`: rows of 400 bytes, in boxes
of 32 bytes, cut at all edges).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tileprof.compiler.cuda.target import SECTOR

Ints = NDArray[np.int64]


def moved_bytes(
    starts: Ints,
    sizes: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    box: int,
    *,
    stored: bool = False,
) -> int:
    """Return the bytes of all tiles, which are fetched, or stored.

    starts: index of each tile's first element, int64[tiles, rank], which may lie outside; sizes:
    extents of a tile; strides: bytes between neighbours of each dimension; box: bytes of a row that
    one box copies.
    """
    low, high = np.maximum(-starts, 0), np.minimum(np.asarray(shape) - starts, sizes)
    # Tiles take the same that are cut alike and begin at the same place in a sector.
    place = (starts * np.array(strides, np.int64)).sum(axis=1, keepdims=True) % SECTOR
    cut = np.concatenate([place, low, high], axis=1)
    keys, counts = np.unique(cut, axis=0, return_counts=True)
    rank, found = len(sizes), 0
    for (begin, *inside), times in zip(keys.tolist(), counts.tolist()):
        inner, filled = _sectors(begin, inside[:rank], inside[rank:], sizes, strides, box)
        found += times * (inner if stored else inner + filled)
    return SECTOR * found


def _sectors(
    place: int,
    low: Sequence[int],
    high: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    box: int,
) -> tuple[int, int]:
    """Return the sectors of one tile inside the tensor, and those outside that a load fills in.

    place: of its first byte in a sector; low, high: extents between which it lies inside."""
    firsts, inside = np.array([place], np.int64), np.ones(1, np.bool_)
    for axis, extent in enumerate(sizes[:-1]):
        at = np.arange(extent)
        firsts = (firsts[:, None] + at * strides[axis]).reshape(-1)
        inside = (inside[:, None] & (at >= low[axis]) & (at < high[axis])).reshape(-1)
    size, width = strides[-1], sizes[-1] * strides[-1]
    inner = filled = 0
    for begin in range(0, width, box):
        end = min(begin + box, width)
        first, last = max(begin, low[-1] * size), min(end, high[-1] * size)
        there = firsts[inside] if first < last else firsts[:0]
        inner += int((-(-(there + last) // SECTOR) - (there + first) // SECTOR).sum())
        filled += len(there) * -(-(end - begin - (last - first)) // SECTOR)
        filled += (len(firsts) - len(there)) * -(-(end - begin) // SECTOR)
    return inner, filled
