"""Effective sample size: how many independent samples a sampler's correlated ones are worth.

In: the samples of a kernel's launches.  Out: for each role a number of trials, which sets the
interval of the shares of its samples.  Trials of several profiles add up, as samples do.
"""

from __future__ import annotations

from .samples import SampleTotals

__all__ = ["effective_sample_size"]

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
