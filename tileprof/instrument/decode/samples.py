"""Counts of where warps were seen, added up by role and site.

In: for some launches how often each warp was seen in each state (`prelude/sampling.cuh`).  Out: for
each role and site how often, and the sums from which the variance between launches follows: readers
of a profile derive shares with intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.instrument.state_table import path_of

Role = Literal["block", "producer", "consumer"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Samples of one launch, or of several."""

    looks: int
    """At one warp of each block, all blocks together."""
    seen: NDArray[np.int64]
    """(warps, states): how often a warp was in a state."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.looks + other.looks, self.seen + other.seen)

    def __sub__(self, before: Counts) -> Counts:
        return Counts(self.looks - before.looks, self.seen - before.seen)


SAMPLING = np.dtype(
    [("counts", "<u8"), ("others", "<u4"), ("first", "<u4"), ("shift", "<u4"), ("seed", "<u4"),
     ("turns", "<u8")]
)  # fmt: skip
"""Parameter of a launch; `TpSampling` of `prelude/sampling.cuh` describes its fields."""


def counted_words(warps: int, states: int) -> int:
    """Return the number of 64-bit words to which a kernel's launches add."""
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
    """Return the argument of a launch of which one in `every` blocks, a power of two, is sampled.

    `counts`: address of zeroed words on the device; two to the power of `shift`: cycles from one
    sample to the next; `turns`: of these blocks of all launches the first 64, then one in 32.
    """
    return np.array((counts, every - 1, first, shift, seed, turns), SAMPLING).tobytes()


NOT_SAMPLED = bytes(SAMPLING.itemsize)
"""Argument of a launch that is not sampled."""


def read_counts(words: NDArray[Any], warps: int, states: int) -> Counts:
    """Return the counts of a kernel from the 64-bit words that its launches added to.

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
    """Samples of one kernel's launches, for any number of them in the same memory.

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
    """Sum over launches of the square of `seen`."""
    products: Floats
    """Sum over launches of the product of `seen` and the role's samples."""
    samples: Floats
    """(roles,): number of samples."""
    samples_squares: Floats

    def __add__(self, other: SampleTotals) -> SampleTotals:
        """Return the sum of both; where one knows more sites, the other has not seen them."""
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
        """Return the totals of one launch.

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
        """Return a role's samples at each site and at none inside of it, given the site around
        each; the last: outside of all."""
        seen = self.seen[row]
        own = seen.copy()
        for site, parent in enumerate(parents[: len(seen) - 1]):
            if parent is not None:
                own[parent] -= seen[site]
        return [max(int(count), 0) for count in own.tolist()]

    def part(self, begin: int, end: int, whole: int) -> SampleTotals:
        """Return the part of all samples from `begin` to `end` of `whole` equal parts."""

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


def _inside(sites: Sequence[ir.Site], states: Sequence[ir.State]) -> Floats:
    """Return (sites + 1, states): 1 where a state lies in a site; the last row: outside of all."""
    found = np.zeros((len(sites) + 1, len(states)))
    parents = [site.parent for site in sites]
    for number, state in enumerate(states):
        found[path_of(state.site, parents) or -1, number] = 1
    return found


FEWEST_LAUNCHES = 8
"""Fewest launches from which the variance between launches is taken into account."""


def effective_sample_size(samples: SampleTotals, row: int) -> int:
    """Return the effective sample size of one role.

    Samples of several warps at one moment count once.  Where launches differ by more than chance,
    samples count for less: by the mean effect of that on the variances of the role's shares (Rao
    and Scott, The analysis of categorical data from complex sample surveys, JASA 76, 1981).
    """
    total = float(samples.samples[row])
    looks, launches = min(samples.looks, int(total)), samples.launches
    if not looks or launches < FEWEST_LAUNCHES:
        return looks
    shares = samples.seen[row] / total
    rest = (
        samples.squares[row]
        - 2 * shares * samples.products[row]
        + shares * shares * samples.samples_squares[row]
    )
    found = launches / (launches - 1) * float(rest.clip(min=0).sum()) / total**2
    expected = float((shares * (1 - shares)).sum()) / looks
    return int(looks * min(expected / found, 1.0)) if found else looks
