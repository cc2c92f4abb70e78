"""From counts of where warps were seen to shares of their time, with intervals that are honest.

In: for some launches how often each warp was seen in each state (`prelude/sampling.cuh`).  Out: for
each role and site the share of the role's time, with the interval that holds it.

The warps of a block often do the same at the same time, so a moment counts once for all of a
role's warps: shares have the interval (Wilson, 1927) of as many independent trials as there were
looks at a warp.  Looks that follow one another closely may still see the same thing.  What that
does shows in how launches differ: with enough of them, the interval of a ratio estimate over
launches (Cochran, Sampling Techniques, 1977, 6.4) is taken where it is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import ProfileFileError

__all__ = ["FEWEST", "NOT_SAMPLED", "SAMPLING", "Counts", "Role", "SampleTotals", "Share"]
__all__ += ["counted_words", "read_counts", "sampling"]

Role = Literal["block", "producer", "consumer"]
Floats = NDArray[np.float64]

FEWEST = 30
"""Looks from which a share is estimated."""
FEWEST_LAUNCHES = 8
"""From which how they differ is looked at."""
Z = 1.959964
"""Of the normal distribution, for 95 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What one launch, or several, gave."""

    looks: int
    """At one warp of each block, all blocks together."""
    seen: NDArray[np.int64]
    """(warps, states): how often a warp was in a state."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.looks + other.looks, self.seen + other.seen)

    def __sub__(self, before: Counts) -> Counts:
        return Counts(self.looks - before.looks, self.seen - before.seen)


@dataclass(frozen=True, slots=True)
class Share:
    """Of a role's time, what it spent at a site and inside of it."""

    role: Role
    site: int
    """Site of the kernel; -1: outside of all."""
    samples: int
    share: float
    """NaN where there are too few looks for an estimate."""
    low: float
    high: float


SAMPLING = np.dtype(
    [("counts", "<u8"), ("others", "<u4"), ("first", "<u4"), ("shift", "<u4"), ("seed", "<u4"),
     ("turns", "<u8")]
)  # fmt: skip
"""What a launch is given; `TpSampling` of `prelude/sampling.cuh` says what the fields mean."""


def counted_words(warps: int, states: int) -> int:
    """How many 64-bit words a kernel's launches add to."""
    return 1 + warps * states


def sampling(
    counts: int,
    *,
    shift: int,
    every: int = 1,
    first: int = 0,
    seed: int = 0,
    turns: bool = False,
) -> bytes:
    """The argument of a launch of which one in `every` blocks, a power of two, is looked at.

    `counts`: address of zeroed words on the device; two to the power of `shift`: cycles from
    one look to the next; `turns`: of these blocks of all launches together the first 64, and then
    one in 32.
    """
    return np.array((counts, every - 1, first, shift, seed, turns), SAMPLING).tobytes()


NOT_SAMPLED = bytes(SAMPLING.itemsize)
"""The argument of a launch that nobody looks at."""


def read_counts(words: NDArray[Any], warps: int, states: int) -> Counts:
    """The counts of a kernel from the 64-bit words that its launches added to.

    ProfileFileError where there are not as many as warps and states ask for.
    """
    if words.shape != (counted_words(warps, states),):
        raise ProfileFileError(
            f"{warps} warps and {states} states have {counted_words(warps, states)} counts, not"
            f" {words.size}",
            hint="Read them with the description of the kernel that wrote them.",
        )
    held = words.astype(np.int64)
    seen = held[1:].reshape(warps, states)
    # Each warp has points of its own; those of one are no more than so many moments.
    return Counts(int(seen.sum(1).max(initial=0)), seen)


@dataclass(slots=True, eq=False)
class SampleTotals:
    """What launches of one kernel gave, for any number of them in the same memory.

    Arrays are (roles, sites + 1), the last column for what lies outside of all sites; counts of a
    site include those inside of it.  `squares` and `products` are what the variance of a ratio over
    launches takes.
    """

    roles: tuple[Role, ...]
    looks: int
    launches: int
    """Batches that were added: one launch each, or those between two readings."""
    seen: Floats
    squares: Floats
    """Of `seen` by launch, summed."""
    products: Floats
    """Of `seen` and the role's samples by launch, summed."""
    samples: Floats
    """(roles,)"""
    samples_squares: Floats

    def __add__(self, other: SampleTotals) -> SampleTotals:
        """Of both; where one knows more sites, the other has not seen them."""
        if self.seen.shape[1] < other.seen.shape[1]:
            return other + self
        other = other._widened(self.seen.shape[1])
        return SampleTotals(
            self.roles,
            self.looks + other.looks,
            self.launches + other.launches,
            self.seen + other.seen,
            self.squares + other.squares,
            self.products + other.products,
            self.samples + other.samples,
            self.samples_squares + other.samples_squares,
        )

    @classmethod
    def of(
        cls,
        counts: Counts,
        sites: Sequence[ir.Site],
        states: Sequence[ir.State],
        consumer_warps: int,
    ) -> SampleTotals:
        """What one launch gave.

        `consumer_warps`: how many of its warps, from the first, are no producers.  A kernel without
        producers has the role `block`.
        """
        warps = len(counts.seen)
        roles: tuple[Role, ...] = ("block",)
        parts = [counts.seen]
        if consumer_warps < warps:
            roles = ("consumer", "producer")
            parts = [counts.seen[:consumer_warps], counts.seen[consumer_warps:]]
        by_state = np.stack([part.sum(0) for part in parts]).astype(np.float64)
        seen = by_state @ _inside(sites, states).T
        total = by_state.sum(1)
        some = int(total.any())
        squared = total * total
        products = seen * total[:, None]
        return cls(roles, counts.looks, some, seen, seen * seen, products, total, squared)

    def own(self, parents: Sequence[int | None], row: int) -> list[int]:
        """A role's samples at each site and at none inside of it, given the site around each; the
        last: outside of all."""
        seen = self.seen[row]
        own = seen.copy()
        for site, parent in enumerate(parents[: len(seen) - 1]):
            if parent is not None:
                own[parent] -= seen[site]
        return [max(int(count), 0) for count in own.tolist()]

    def part(self, begin: int, end: int, whole: int) -> SampleTotals:
        """From `begin` to `end` of `whole` parts of all samples."""

        def cut(count: Any) -> Any:
            return count * end // whole - count * begin // whole

        share = (end - begin) / whole
        return replace(
            self,
            looks=cut(self.looks),
            seen=cut(self.seen),
            samples=cut(self.samples),
            squares=self.squares * share * share,
            products=self.products * share * share,
            samples_squares=self.samples_squares * share * share,
        )

    def _widened(self, columns: int) -> SampleTotals:
        more = columns - self.seen.shape[1]
        if not more:
            return self
        wide = (np.insert(a, [a.shape[1] - 1] * more, 0, axis=1)
                for a in (self.seen, self.squares, self.products))  # fmt: skip
        seen, squares, products = wide
        return replace(self, seen=seen, squares=squares, products=products)

    def shares(self) -> list[Share]:
        """Those of all sites that were seen, by role; what is outside of all sites last."""
        return [
            self._share(row, column)
            for row in range(len(self.roles))
            for column in np.flatnonzero(self.seen[row]).tolist()
        ]

    def _share(self, row: int, column: int) -> Share:
        role, site = self.roles[row], column if column < self.seen.shape[1] - 1 else -1
        samples, total = int(self.seen[row, column]), float(self.samples[row])
        # Warps that ended early are seen less often than there were looks.
        trials = min(self.looks, int(total))
        if trials < FEWEST:
            return Share(role, site, samples, math.nan, 0.0, 1.0)
        share = samples / total
        low, high = _wilson(share, trials)
        wide = self._over_launches(row, column)
        return Share(
            role, site, samples, share,
            max(min(low, share - wide), 0.0), min(max(high, share + wide), 1.0),
        )  # fmt: skip

    def _over_launches(self, row: int, column: int) -> float:
        """Half the width of the interval of a ratio over launches; 0 where there are too few."""
        count, total = self.launches, float(self.samples[row])
        if count < FEWEST_LAUNCHES:
            return 0.0
        share = float(self.seen[row, column]) / total
        rest = (
            self.squares[row, column]
            - 2 * share * self.products[row, column]
            + share * share * self.samples_squares[row]
        )
        variance = count / (count - 1) * max(float(rest), 0.0) / total**2
        return _student(count - 1) * math.sqrt(variance)


def _inside(sites: Sequence[ir.Site], states: Sequence[ir.State]) -> Floats:
    """(sites + 1, states): 1 where a state lies in a site; the last row: outside of all."""
    found = np.zeros((len(sites) + 1, len(states)))
    for number, state in enumerate(states):
        if state.site < 0:
            found[-1, number] = 1
        at: int | None = state.site
        while at is not None and at >= 0:
            found[at, number] = 1
            at = sites[at].parent
    return found


def _wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's interval of a share of so many independent trials, 95 %."""
    spread = Z * Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt((share * (1 - share) + spread / 4) / trials)
    return middle - half, middle + half


def _student(freedom: int) -> float:
    """Student's t for 95 %, by the expansion of Abramowitz and Stegun, 26.7.5."""
    z = Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
