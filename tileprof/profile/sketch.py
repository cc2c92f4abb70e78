"""Quantiles of times or sizes: how many values fell into each of many narrow buckets.

Values are whole numbers of 64 bits. There are 32 buckets between a power of two and the next, so a
value is known to 1.6 %, and exactly below 64. The native recorder counts in the same buckets.

    shift  = max(bits of value - 6, 0)       how many low bits are not kept
    bucket = 32 * shift + (value >> shift)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile.storage.sketch_bytes import decode, encode

Buckets: TypeAlias = npt.NDArray[np.uint16]
Counts: TypeAlias = npt.NDArray[np.int64]
_Key = TypeVar("_Key")

PER_OCTAVE: Final = 32
BUCKETS: Final = 60 * PER_OCTAVE
"""Number of buckets: the largest 64-bit value is in the last one."""
_KEPT_BITS: Final = 6


def bucket_of(values: npt.ArrayLike) -> Buckets:
    """Return the bucket of each value; a fraction is cut off.

    Raises `UsageError` for what is below 0, above 64 bits, or no number.
    """
    whole = _whole(values)
    left, exponent = whole, np.zeros(whole.shape, np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        width = np.where(left >> np.uint64(step), np.uint64(step), np.uint64(0))
        left, exponent = left >> width, exponent + width
    shift = np.maximum(exponent, np.uint64(_KEPT_BITS - 1)) - np.uint64(_KEPT_BITS - 1)
    return (shift * np.uint64(PER_OCTAVE) + (whole >> shift)).astype(np.uint16)


def value_of(buckets: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the value in the middle of each bucket."""
    number = np.asarray(buckets, np.uint64)
    shift = np.maximum(number // np.uint64(PER_OCTAVE), np.uint64(1)) - np.uint64(1)
    low = (number - shift * np.uint64(PER_OCTAVE)) << shift
    widest = (np.uint64(1) << shift) - np.uint64(1)
    return np.asarray(low.astype(np.float64) + 0.5 * widest.astype(np.float64))


def _whole(values: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    given = np.asarray(values)
    kind = given.dtype.kind
    # Comparisons with NaN are false, so it is refused too.
    fits = kind == "f" and ((given >= 0) & (given < 2.0**64)).all()
    if given.size and not (fits or kind in "bu" or (kind == "i" and (given >= 0).all())):
        raise UsageError("a sketch takes numbers from 0 to 2**64 - 1, as ns or bytes are")
    return given.astype(np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """Counts of values by bucket; never changed after it is made."""

    buckets: Buckets
    """Ascending."""
    counts: Counts
    """Number of values in each bucket: 1 or more."""

    @staticmethod
    def of(values: npt.ArrayLike) -> Sketch:
        """Return the sketch of some values; `UsageError` where they are not 0 to 2**64 - 1."""
        buckets, counts = np.unique(bucket_of(values), return_counts=True)
        return split([0, buckets.size], buckets, counts)[0]

    @staticmethod
    def from_counts(buckets: npt.ArrayLike, counts: npt.ArrayLike) -> Sketch:
        """Return a sketch of counted buckets, in any order; a bucket may stand there repeatedly.

        Raises `UsageError` where a bucket does not exist or a count is below 1.
        """
        found, number = np.asarray(buckets, np.int64), np.asarray(counts, np.int64)
        if found.shape != number.shape or found.ndim != 1:
            raise UsageError("a sketch takes one count for each bucket")
        if ((found < 0) | (found >= BUCKETS) | (number < 1)).any():
            raise UsageError(f"a sketch has buckets 0 to {BUCKETS - 1}, with counts of 1 or more")
        distinct, sums = added_up(found, number)
        return split([0, distinct.size], distinct, sums)[0]

    @staticmethod
    def from_bytes(content: bytes) -> Sketch:
        """Return the sketch that `to_bytes` wrote; raises `ProfileFileError` for anything else."""
        return sketches_from_bytes([content])[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        same = np.array_equal(self.buckets, other.buckets)
        return same and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.buckets.tobytes(), self.counts.tobytes()))

    def __repr__(self) -> str:
        middle, last = (self.quantile(q) for q in (0.5, 1.0))
        return f"Sketch(count={self.count}, p50={middle:g}, p100={last:g})"

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    def add(self, values: npt.ArrayLike) -> Sketch:
        """Return the sketch of these values and its own; raises as `of` does."""
        return self.merge(Sketch.of(values))

    def merge(self, *others: Sketch) -> Sketch:
        """Return the sketch of all values of all of them."""
        return merged([(0, sketch) for sketch in (self, *others)])[0]

    def quantile(self, q: float) -> float:
        """Return the value that a share `q` (0 to 1) of the values reach at most, to 1.6 %.

        NaN of an empty sketch. Raises `UsageError` for a share outside 0 to 1.
        """
        return float(quantiles([self], q)[0])

    def to_bytes(self) -> bytes:
        """Return it in the form that files have; `sketch_bytes` says how that is."""
        return encode(self.buckets.tolist(), self.counts.tolist())


def merged(pairs: Iterable[tuple[_Key, Sketch]]) -> dict[_Key, Sketch]:
    """Make one sketch of all that have the same key; keys are in first-seen order."""
    groups: dict[_Key, list[Sketch]] = {}
    for key, sketch in pairs:
        groups.setdefault(key, []).append(sketch)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    parts = [sketch for group in several.values() for sketch in group]
    sizes = [sum(len(sketch.counts) for sketch in group) for group in several.values()]
    if not parts:
        return {key: group[0] for key, group in groups.items()}
    # All at once: the number of a group goes above that of the bucket.
    group_of = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    buckets = np.concatenate([sketch.buckets for sketch in parts]).astype(np.int64)
    keys, counts = added_up(
        group_of * BUCKETS + buckets, np.concatenate([sketch.counts for sketch in parts])
    )
    starts = np.searchsorted(keys, np.arange(len(sizes) + 1) * BUCKETS)
    made = dict(zip(several, split(starts.tolist(), keys % BUCKETS, counts)))
    return {key: made.get(key, group[0]) for key, group in groups.items()}


def split(
    starts: Sequence[int], buckets: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]
) -> list[Sketch]:
    """Return sketches that lie one after the other: `i` is from `starts[i]` to `starts[i + 1]`.

    Their buckets ascend, their counts are 1 or more.
    """
    narrow, wide = buckets.astype(np.uint16), counts.astype(np.int64)
    narrow.setflags(write=False)
    wide.setflags(write=False)
    return [Sketch(narrow[a:b], wide[a:b]) for a, b in itertools.pairwise(starts)]


def sketches_from_bytes(contents: Sequence[bytes]) -> list[Sketch]:
    """Return many sketches at once; raises `ProfileFileError` where one is damaged."""
    return split(*decode(contents, BUCKETS))


def quantiles(sketches: Collection[Sketch], q: float) -> npt.NDArray[np.float64]:
    """Return the quantile of each sketch, as `Sketch.quantile` does."""
    if not 0 <= q <= 1:
        raise UsageError(f"a quantile is between 0 and 1, not {q}")
    buckets = np.array([_bucket_at(sketch, q) for sketch in sketches], np.int64)
    return np.where(buckets < 0, np.nan, value_of(np.maximum(buckets, 0)))


def _bucket_at(sketch: Sketch, q: float) -> int:
    """Return the bucket of the value at that share of the values; -1 where there are none."""
    if not sketch.counts.size:
        return -1
    below = sketch.counts.cumsum()
    # Less a little: 0.07 * 100 is above 7 in floating point.
    rank = max(math.ceil(q * int(below[-1]) * (1 - 1e-12)), 1)
    return int(sketch.buckets[below.searchsorted(rank)])


def added_up(
    keys: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return distinct keys, ascending, and the sum of the counts of each."""
    if not keys.size:
        return keys, counts
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[first], np.add.reduceat(counts[order], first)
