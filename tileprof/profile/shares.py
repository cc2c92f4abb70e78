"""Shares of a kernel's samples by site, with intervals.

In: a profile whose kernels and sites hold numbers of samples.  Out: for each site, by role, its
share of the kernel's samples, with Wilson's interval (1927) for 95 % of as many trials as the
kernel's looks count for.  It is not stored: sums survive what is done to a tree, shares do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .kernel_places import kernels_around
from .metrics import Column
from .tree.model import Profile

ROLES = ("block", "consumer", "producer")
"""Roles of warps; `block` in kernels without any division of work."""
FEWEST = 30
"""Trials from which a share is told."""
_Z = 1.959964
SAMPLES = "kernel_samples"
"""The metric of the samples of all roles together."""


@dataclass(frozen=True, slots=True)
class Share:
    """Share of a kernel's samples at a site and inside it, 0 to 1."""

    role: str
    samples: int
    share: float
    """NaN where there are too few trials to tell."""
    low: float
    high: float

    @classmethod
    def of(cls, role: str, samples: int, whole: int, trials: int) -> Share:
        """Return the share of `samples` in `whole`, which is worth `trials` independent samples."""
        trials = min(trials, whole)
        if trials < FEWEST:
            return cls(role, samples, math.nan, 0.0, 1.0)
        return cls(role, samples, samples / whole, *_wilson(samples / whole, trials))


def roles_of(profile: Profile) -> tuple[str, ...]:
    """Return the roles that something of the profile was seen in."""
    return tuple(role for role in ROLES if (_total(profile, role) > 0).any())


def shares_of(profile: Profile) -> dict[int, tuple[Share, ...]]:
    """Return the shares of sampled sites below their kernel: by node, one for each role."""
    if SAMPLES not in profile.metrics:
        return {}
    found: dict[int, list[Share]] = {}
    kernels = kernels_around(profile)
    for role in ROLES:
        samples, looks = _total(profile, role), _looks(profile, role)
        for node in np.flatnonzero((samples > 0) & (kernels >= 0)).tolist():
            kernel = kernels[node]
            if node != kernel:
                share = Share.of(role, samples[node], samples[kernel], looks[kernel])
                found.setdefault(node, []).append(share)
    return {node: tuple(shares) for node, shares in found.items()}


def line_shares(
    profile: Profile, places: Mapping[int, tuple[str, int]]
) -> dict[tuple[str, int], Share]:
    """Return the share of each line in the samples of the kernels that were sampled at it, all
    roles together. `places`: file and line of each node that has them."""
    if SAMPLES not in profile.metrics:
        return {}
    own, whole = profile.own[SAMPLES] + profile.absorbed[SAMPLES], profile.total(SAMPLES)
    looks = np.max([_looks(profile, role) for role in ROLES], axis=0)
    kernels = kernels_around(profile)
    seen: dict[tuple[str, int], int] = {}
    by: dict[tuple[str, int], set[int]] = {}
    for node, place in places.items():
        if own[node] and kernels[node] >= 0:
            seen[place] = seen.get(place, 0) + int(own[node])
            by.setdefault(place, set()).add(int(kernels[node]))
    return {
        place: Share.of("", count, *(int(sum(of[k] for k in by[place])) for of in (whole, looks)))
        for place, count in seen.items()
    }


def _total(profile: Profile, role: str) -> Column:
    if role != "block":
        return _of(profile, f"{role}_samples")
    others = [_of(profile, f"{each}_samples") for each in ROLES if each != "block"]
    return np.asarray(_of(profile, SAMPLES) - np.sum(others, axis=0))


def _looks(profile: Profile, role: str) -> Column:
    return _of(profile, "looks" if role == "block" else f"{role}_looks")


def _of(profile: Profile, metric: str) -> Column:
    if metric not in profile.metrics:
        return np.zeros(len(profile), np.int64)
    return profile.total(metric)


def _wilson(share: float, trials: float) -> tuple[float, float]:
    spread = _Z * _Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt((share * (1 - share) + spread / 4) / trials)
    return max(middle - half, 0.0), min(middle + half, 1.0)
