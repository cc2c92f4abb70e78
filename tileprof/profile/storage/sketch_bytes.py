"""The bytes of a quantile sketch: small numbers in one byte each, many sketches read at once.

    sketch = { gap count }        the buckets that hold something, ascending

`gap` is how many empty buckets are below this one, down to the one before or to the first bucket of
all; `count` is one less than how many values it holds. Both are LEB128: 7 bits a byte, lowest
first, the highest bit set where more follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.errors import ProfileFileError

_Numbers: TypeAlias = npt.NDArray[np.int64]

_LONGEST: Final = 8
"""Bytes of a number: 56 bits are more visits than any program makes, and their sum fits 64."""


def encode(buckets: Sequence[int], counts: Sequence[int]) -> bytes:
    """Return the bytes of one sketch; buckets ascend, counts are 1 or more."""
    content, expected = bytearray(), 0
    for bucket, count in zip(buckets, counts):
        _append(content, bucket - expected)
        _append(content, count - 1)
        expected = bucket + 1
    return bytes(content)


def _append(content: bytearray, number: int) -> None:
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)


def decode(contents: Sequence[bytes], limit: int) -> tuple[list[int], _Numbers, _Numbers]:
    """Return where each sketch starts (one more than sketches), and all buckets and counts.

    Raises `ProfileFileError` where the bytes are no sketch, or a bucket is not below `limit`.
    """
    raw = np.frombuffer(b"".join(contents), np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    edges = np.cumsum([0, *map(len, contents)])
    # Every sketch ends where a number does, and has two numbers for each bucket.
    numbers = np.searchsorted(ends, edges)
    whole = edges[1:][np.diff(edges) > 0] - 1
    if (numbers % 2).any() or (raw[whole] >= 0x80).any():
        raise _damaged()
    starts = numbers // 2
    values = _numbers(raw, ends)
    gaps, counts = values[0::2], values[1::2] + 1
    buckets = np.cumsum(gaps + 1) - 1
    # Each sketch counts from 0 again: less where the one before has ended.
    before = np.concatenate(([0], buckets + 1))[starts[:-1]]
    buckets -= np.repeat(before, np.diff(starts))
    if (buckets >= limit).any():
        raise _damaged()
    return starts.tolist(), buckets, counts


def _numbers(raw: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp]) -> _Numbers:
    """Return the numbers whose last bytes are at `ends`."""
    first = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    lengths = ends - first + 1
    if lengths.size and int(lengths.max()) > _LONGEST:
        raise _damaged()
    values = np.zeros(ends.size, np.int64)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        values[longer] |= (raw[first[longer] + place].astype(np.int64) & 0x7F) << (7 * place)
    return values


def _damaged() -> ProfileFileError:
    return ProfileFileError("a quantile sketch is damaged")
