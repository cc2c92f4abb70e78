"""From counts of where warps were seen to shares of their time, with intervals that are honest.

In: for some launches how often each warp was seen in each state (`prelude/sampling.cuh`).  Out: for
each role and site the share of the role's time, with the interval that holds it.

The warps of a block are looked at together and often do the same, so a look counts once for all of
a role's warps: shares have the interval (Wilson, 1927) of as many independent trials as there were
looks.  Looks that follow one another closely may still see the same thing.  What that does shows in
how launches differ: with enough of them, the interval of a ratio estimate over launches (Cochran,
Sampling Techniques, 1977, 6.4) is taken where it is wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import ProfileFileError

__all__ = ["FEWEST", "NOT_SAMPLED", "SAMPLING", "Counts", "Role", "Share", "counted_words"]
__all__ += ["read_counts", "sampling", "shares"]

Role = Literal["block", "producer", "consumer"]

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
    """At all blocks together."""
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
    [("counts", "<u8"), ("every", "<u4"), ("first", "<u4"), ("period", "<u4"), ("seed", "<u4")]
)
"""What a launch is given; `TpSampling` of `prelude/sampling.cuh` says what the fields mean."""


def counted_words(warps: int, states: int) -> int:
    """How many 64-bit words a kernel's launches add to."""
    return 1 + warps * states


def sampling(counts: int, *, period: int, every: int = 1, first: int = 0, seed: int = 0) -> bytes:
    """The argument of a launch whose blocks number `first` modulo `every` are looked at.

    `counts`: address of zeroed words on the device; `period`: mean time between two looks in ns.
    """
    return np.array((counts, every, first, period, seed), SAMPLING).tobytes()


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
    return Counts(int(held[0]), held[1:].reshape(warps, states))


def shares(
    launches: Sequence[Counts],
    sites: Sequence[ir.Site],
    states: Sequence[ir.State],
    consumer_warps: int,
) -> list[Share]:
    """The shares of all sites that were seen, by role, a site before those inside it.

    `launches`: of one kernel; `consumer_warps`: how many of its warps, from the first, are no
    producers.  A kernel without producers has the role `block`.
    """
    if not launches:
        return []
    warps = len(launches[0].seen)
    roles: list[tuple[Role, slice]] = [("block", slice(0, warps))]
    if consumer_warps < warps:
        roles = [("consumer", slice(0, consumer_warps)), ("producer", slice(consumer_warps, warps))]
    inside = _inside(sites, states)
    found: list[Share] = []
    for role, rows in roles:
        by_launch = np.stack([each.seen[rows].sum(0) for each in launches])
        found += _of_role(role, by_launch, sum(each.looks for each in launches), inside)
    return found


def _inside(sites: Sequence[ir.Site], states: Sequence[ir.State]) -> dict[int, NDArray[np.bool_]]:
    """For each site, which states lie in it; -1: outside of all."""
    parents = {site.id: site.parent for site in sites}
    found = {-1: np.array([state.site == -1 for state in states])}
    found |= {site.id: np.zeros(len(states), np.bool_) for site in sites}
    for number, state in enumerate(states):
        at: int | None = state.site
        while at is not None and at >= 0:
            found[at][number] = True
            at = parents[at]
    return found


def _of_role(
    role: Role,
    by_launch: NDArray[np.int64],
    looks: int,
    inside: dict[int, NDArray[np.bool_]],
) -> list[Share]:
    totals = by_launch.sum(1)
    total = int(totals.sum())
    made = []
    for site, states in inside.items():
        seen = by_launch[:, states].sum(1)
        samples = int(seen.sum())
        if not samples:
            continue
        # Warps that ended early are seen less often than there were looks.
        trials = min(looks, total)
        if trials < FEWEST:
            made.append(Share(role, site, samples, math.nan, 0.0, 1.0))
            continue
        share = samples / total
        low, high = _wilson(share, trials)
        wide = _over_launches(seen, totals)
        low, high = max(min(low, share - wide), 0.0), min(max(high, share + wide), 1.0)
        made.append(Share(role, site, samples, share, low, high))
    return made


def _wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's interval of a share of so many independent trials, 95 %."""
    spread = Z * Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt((share * (1 - share) + spread / 4) / trials)
    return middle - half, middle + half


def _over_launches(seen: NDArray[np.int64], totals: NDArray[np.int64]) -> float:
    """Half the width of the interval of a ratio over launches; 0 where there are too few."""
    seen, totals = seen[totals > 0], totals[totals > 0]
    count = len(totals)
    if count < FEWEST_LAUNCHES:
        return 0.0
    rest = seen - seen.sum() / totals.sum() * totals
    variance = count / (count - 1) * float((rest * rest).sum()) / float(totals.sum()) ** 2
    return _student(count - 1) * math.sqrt(variance)


def _student(freedom: int) -> float:
    """Student's t for 95 %, by the expansion of Abramowitz and Stegun, 26.7.5."""
    z = Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
