"""Durations of visits as counts in narrow buckets: bounded, and added up over launches.

There are 32 buckets between a power of two and the next (log-linear buckets, as of HdrHistogram by
G. Tene), so a time is known to 1.6 %, and to the ns below 64 ns.  With the whole ns of a time:

    shift  = max(bits of ns - 6, 0)
    bucket = 32 * shift + (ns >> shift)

These are the buckets in which `profile` keeps quantiles, so counts are handed over as they are.
For speed a time is first put where the exponent and the first five bits of its fraction say, as a
float64 has them; that is a finer grid, and `_FOLD` says which bucket each of its places belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

BUCKETS: Final = 60 * 32
PLACES: Final = 65 * 32
"""Places of the finer grid: exponents from -1 to 63."""
_KEPT_BITS: Final = 52 - 5
_FIRST_PLACE: Final = (1023 - 1) * 32


def _fold() -> Ints:
    """Return the bucket of each place."""
    place = np.arange(PLACES)
    least = ((place + _FIRST_PLACE) << _KEPT_BITS).view(np.float64)
    return np.where(least < 32, np.floor(least), place - 5 * 32).astype(np.int64)


_FOLD: Final = _fold()


def place_of(ns: NDArray[Any]) -> Ints:
    """Return places of times on the finer grid, 0 to `PLACES` - 1; times below 0 count as 0."""
    # Below 0.5 all is bucket 0; the exponent -1 is the first of the grid.
    bits: Ints = np.maximum(ns, 0.5).view(np.int64)
    bits >>= _KEPT_BITS
    bits -= _FIRST_PLACE
    return bits


def middle_of(bucket: NDArray[Any]) -> NDArray[np.float64]:
    """Return the time in the middle of each bucket, in ns."""
    shift = np.maximum(np.asarray(bucket, np.int64) // 32, 1) - 1
    least = (bucket - 32 * shift) * 2.0**shift
    return np.asarray(least + 0.5 * (2.0**shift - 1))


def count_places(keys: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return the distinct `group * PLACES + place`, ascending, and how often each is there."""
    if len(keys) * 16 < groups * PLACES:
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts
    counts = np.bincount(keys, minlength=groups * PLACES)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Counts of times for some sites: those of site i lie from `starts[i]` to `starts[i + 1]`."""

    starts: Ints
    bucket: NDArray[np.uint16]
    """Ascending within a site."""
    count: Ints
    """Counts, 1 or more."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of_places(cls, keys: Ints, counts: Ints, groups: int) -> Histograms:
        """Return histograms from counts of `group * PLACES + place`, in any order."""
        return cls._of_keys(keys // PLACES * BUCKETS + _FOLD[keys % PLACES], counts, groups)

    @classmethod
    def merge(cls, parts: Sequence[Histograms], rows: Sequence[Ints], groups: int) -> Histograms:
        """Return the sums of several; site i of part p goes to site `rows[p][i]`."""
        keys = [
            np.repeat(row, np.diff(p.starts)) * BUCKETS + p.bucket for p, row in zip(parts, rows)
        ]
        none: list[Ints] = [np.empty(0, np.int64)]
        return cls._of_keys(
            np.concatenate(keys or none), np.concatenate([p.count for p in parts] or none), groups
        )

    @classmethod
    def _of_keys(cls, keys: Ints, counts: Ints, groups: int) -> Histograms:
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        sums = np.add.reduceat(counts, first) if len(first) else counts
        distinct = keys[first]
        starts = np.searchsorted(distinct, np.arange(groups + 1) * BUCKETS)
        return cls(starts, (distinct % BUCKETS).astype(np.uint16), sums.astype(np.int64))

    def quantile(self, q: float) -> NDArray[np.float64]:
        """Return for each site the time that a share `q` (0 to 1) of its visits do not exceed.

        Times are known to 1.6 %; NaN where there is no visit.
        """
        found = np.full(len(self), np.nan)
        for i in np.flatnonzero(np.diff(self.starts)).tolist():
            mine = slice(int(self.starts[i]), int(self.starts[i + 1]))
            below = np.cumsum(self.count[mine])
            # Less a little: 0.07 * 100 is above 7 in floating point.
            rank = max(np.ceil(q * int(below[-1]) * (1 - 1e-12)), 1)
            found[i] = middle_of(self.bucket[mine][np.searchsorted(below, rank)])
        return found
