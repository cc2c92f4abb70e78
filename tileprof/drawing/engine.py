"""Bytes that the copy engine (TMA) fetches for tiles of global memory.

In: where tiles begin, and how their tensor lies.  Out: bytes.  The engine asks for whole pieces of
64 bytes, or of a row of a box where that is less: of each row its whole width, also beyond the
tensor's last column, and of rows groups of 8, of which the last one may reach beyond the last row.

Counters of launches on an H200 (`l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld`): tiles that
are inside, of tensors whose rows are multiples of 64 bytes, take their own bytes (10 kernels,
2026-11-28 and 2026-11-29).  What cut tiles take rests on one product, of rows of 272 bytes, which
took 399,360 bytes (2026-11-29): these parts of the rule are the ones that give this number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_PIECE = 64
"""Bytes that are fetched together."""
_ROWS = 8
"""Rows that are fetched together."""


def fetched(
    starts: Ints,
    sizes: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    box: int,
) -> int:
    """Return the bytes of all tiles.

    starts: index of each tile's first element, int64[tiles, rank], which may lie outside; sizes:
    extents of a tile; strides: bytes between neighbours of each dimension; box: bytes of a row that
    one box copies.
    """
    inside = np.minimum(starts + sizes, shape) - np.maximum(starts, 0)
    inside = np.clip(inside, 0, None)
    rows = [axis for axis in range(len(sizes) - 1) if sizes[axis] > 1]
    if rows:
        last = rows[-1]
        inside[:, last] = np.minimum(-(-inside[:, last] // _ROWS) * _ROWS, sizes[last])
    # Tiles take the same that are cut alike and begin at the same place in a piece.
    place = (starts * np.array(strides, np.int64)).sum(axis=1, keepdims=True) % _PIECE
    keys, counts = np.unique(np.concatenate([place, inside], axis=1), axis=0, return_counts=True)
    return sum(
        _tile(key[0], key[1:], sizes[-1] * strides[-1], strides, box) * times
        for key, times in zip(keys.tolist(), counts.tolist())
    )


def _tile(place: int, inside: Sequence[int], width: int, strides: Sequence[int], box: int) -> int:
    """Return the bytes of one tile.  place: of its first byte in a piece; inside: extents that are
    fetched; width: bytes of a row."""
    if not math.prod(inside):
        return 0
    firsts = np.array([place], np.int64)
    for extent, stride in zip(inside[:-1], strides[:-1], strict=True):
        firsts = (firsts[:, None] + np.arange(extent) * stride % _PIECE).reshape(-1) % _PIECE
    total, piece = 0, min(_PIECE, box, width)
    for at in range(0, width, box):
        begin, end = firsts + at, firsts + min(at + box, width)
        total += int((-(-end // piece) - begin // piece).sum()) * piece
    return total
