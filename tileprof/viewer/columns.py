"""Numbers that a view shows: metrics, rates of two of them, quantiles of one, facts of kernels.

In: a profile and a name a reader asked for.  Out: a `Column`: a value per node, one for the whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError, suggestion
from tileprof.profile import Profile, inside_kernels
from tileprof.profile.counters import RATES as COUNTER_RATES
from tileprof.profile.counters import Rate, rate_of
from tileprof.profile.counters import is_part as is_part_of_counter
from tileprof.profile.metrics import is_estimate
from tileprof.profile.sketch import quantiles
from tileprof.viewer.kernel_facts import fact_names, is_part, mean_of, unit_of
from tileprof.viewer.sample_shares import share_column, share_names

Values: TypeAlias = npt.NDArray[Any]

RATES = {
    "gflop/s": Rate("flops", "time", 1.0, "1", False),  # a flop per nanosecond is a gflop/s
    "tflop/s": Rate("flops", "time", 1e-3, "1", False),
    "gbyte/s": Rate("bytes", "time", 1.0, "1", False),
    "tbyte/s": Rate("bytes", "time", 1e-3, "1", False),
    "avg_time": Rate("time", "count", 1.0, "ns", False),
    "avg_cpu_time": Rate("cpu_time", "count", 1.0, "ns", False),
    "perturbation": Rate("mark_time", "block_time", 1.0, "share", False),
    **COUNTER_RATES,
}
"""A metric that a profile itself has under one of these names takes the place of the rate."""

COUNTERS_SHOWN = ("dram_tbyte/s", "l2_hit_rate", "tensor_use", "achieved_occupancy")
"""Rates of hardware counters that stand beside `time` where they were asked for."""
PERCENTS = (50, 95, 99)
"""Percentiles whose columns are offered; any other can be requested, as in `time_p99.9`."""
_QUANTILE = re.compile(r"(.+)_p(100|\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Column:
    """One metric over all nodes; NaN where a node has no value."""

    name: str
    unit: str
    total: Values
    own: Values | None
    """None for rates, quantiles and means, which have no part that is a node's own."""
    whole: float
    """The value of the whole profile; NaN where there is no such number."""
    adds: str
    """Addition rule: the metric's own, or `rate`, `quantile`, or `mean` over kernels."""

    @property
    def sums(self) -> bool:
        """True where values add up, so that shares of the whole have a meaning."""
        return self.adds == "sum"

    def has_split(self) -> bool:
        """True where own values differ from totals: some node has a value below it as well."""
        if self.own is None or not self.sums:
            return self.own is not None
        return bool(((self.own != 0) & (self.own != self.total)).any())

    def shares(self) -> Values:
        """Return each node's total as a part of the whole, 0 to 1; NaN where nothing adds up."""
        if not self.sums or not self.whole:
            return np.full(len(self.total), np.nan)
        return np.asarray(self.total / self.whole)


def available(profile: Profile) -> list[str]:
    """Return columns' names: metrics, rates, the usual quantiles, shares, facts of kernels."""
    metrics = {
        name: metric
        for name, metric in profile.metrics.items()
        if not (is_part(name) or is_part_of_counter(name) or is_estimate(name))
    }
    rates = [name for name, rate in _rates(profile).items() if rate.below in profile.metrics]
    usual = [f"{name}_p{percent}" for name in sketched(profile) for percent in PERCENTS]
    more = [*rates, *usual, *share_names(profile), *fact_names(profile)]
    return [*metrics, *(name for name in more if name not in metrics)]


def sketched(profile: Profile) -> list[str]:
    """Return the metrics of which some node has a sketch, and so quantiles."""
    held = {metric for _, metric in profile.tables.sketches}
    return [name for name in profile.metrics if name in held]


def default_metric(profile: Profile) -> str:
    """`time`, or `cpu_time` where no device time was recorded, or the first metric that adds up.

    Raises UsageError for a profile without any metric that adds up.
    """
    sums = [name for name, metric in profile.metrics.items() if metric.adds == "sum"]
    preferred = [name for name in ("time", "cpu_time") if name in sums]
    candidates = [*preferred, *sums]
    if not candidates:
        raise UsageError(
            "the profile holds no metric that adds up, so there is no tree of costs to show",
            hint="Profile a program that launches a kernel or opens a scope.",
        )
    return next((name for name in candidates if profile.whole[name]), candidates[0])


def column(profile: Profile, name: str, per_visit: bool = True) -> Column:
    """Return the column called `name`.

    `per_visit` takes averages and quantiles of a node's own visits; without it of those of its
    subtree, as a bottom-up tree needs. A fact of kernels needs a profile `with_facts`. Raises
    UsageError for an unknown name, as `require` does.
    """
    if name in profile.metrics:
        metric = profile.metrics[name]
        whole = float(profile.whole[name])
        return Column(name, metric.unit, profile.total(name), profile.own[name], whole, metric.adds)
    if name in _rates(profile) and name in available(profile):
        return _rate(profile, name, per_visit)
    if name in share_names(profile):
        return Column(name, "share", share_column(profile, name), None, np.nan, "rate")
    if name in fact_names(profile):
        means, whole = mean_of(profile, name)
        return Column(name, unit_of(name), means, None, whole, "mean")
    # A tree of which much was left out may have no sketch any more: then all values are NaN.
    if (asked := _QUANTILE.fullmatch(name)) and asked[1] in profile.metrics:
        return quantile_column(profile, asked[1], asked[2], per_visit)
    raise _unknown(profile, name, f"the profile has no metric `{name}`")


def require(profile: Profile, name: str) -> None:
    """Raise UsageError, with the names that exist, where a reader cannot ask for that column."""
    if name in fact_names(profile):
        return
    asked = _QUANTILE.fullmatch(name)
    if asked is None or asked[1] not in profile.metrics or name in profile.metrics:
        column(profile, name)
    elif asked[1] not in sketched(profile):
        raise _unknown(profile, name, f"the profile has sums of `{asked[1]}`, but no quantiles")


def _unknown(profile: Profile, name: str, sentence: str) -> UsageError:
    known = available(profile)
    hint = f"{suggestion(name, known)}It has: {', '.join(known) or 'none'}."
    return UsageError(sentence, hint=hint)


def default_rates(profile: Profile, per_visit: bool = True) -> list[Column]:
    """Return rates shown beside `time` where a reader asked for nothing and some node has them.

    Mean times (those of sites inside kernels are in their notes), GB/s, and GFLOP/s or TFLOP/s.
    None where `time` is not what the profile is shown by.
    """
    if default_metric(profile) != "time":
        return []
    # What most kernels move is unknown: a rate over all that is below a node would be too low.
    below = per_visit and "bytes" in profile.metrics
    unknown = profile.own["bytes"] == 0 if below else np.zeros(len(profile), bool)
    hidden = {"avg_time": inside_kernels(profile), "gbyte/s": unknown}
    known = _rates(profile).keys() & available(profile) - profile.metrics.keys()
    rates = [
        _without(_rate(profile, name, per_visit), hidden.get(name))
        for name in ("avg_time", "gbyte/s", _flop_rate(profile), *COUNTERS_SHOWN)
        if name in known
    ]
    return [rate for rate in rates if not np.isnan(rate.total).all()]


def _rates(profile: Profile) -> dict[str, Rate]:
    """Return the rates whose upper metric a profile has, those of single counters among them."""
    # A counter that is 0 everywhere is left out of a profile; its rate's presence shows it.
    found = {
        name: rate
        for name, rate in RATES.items()
        if rate.above in profile.metrics or (rate.may_be_zero and rate.below != "time")
    }
    of_instructions = profile.tables.pc.counts.rates
    found |= {rate.name: Rate(rate.above, rate.below, 1.0, "1", False) for rate in of_instructions}
    for metric in profile.metrics:
        if (named := rate_of(metric)) is not None:
            found[named[0]] = named[1]
    return found


def _flop_rate(profile: Profile) -> str:
    """Return the unit in which the fastest node of a profile has a readable number."""
    if not {"flops", "time"} <= profile.metrics.keys():
        return "gflop/s"
    fastest = np.fmax.reduce(_rate(profile, "tflop/s", True).total, initial=0)
    return "tflop/s" if fastest >= 1 else "gflop/s"


def _without(rate: Column, where: Values | None) -> Column:
    if where is None:
        return rate
    return replace(rate, total=np.where(where, np.nan, rate.total), whole=np.nan)


def _rate(profile: Profile, name: str, per_visit: bool) -> Column:
    rate = _rates(profile)[name]
    known_above = rate.above in profile.metrics
    above = profile.total(rate.above) * rate.factor if known_above else np.zeros(len(profile))
    averages = rate.below == "count"
    below = visits(profile, per_visit) if averages else profile.total(rate.below)
    values = np.full(len(profile), np.nan)
    known = (below != 0) & ((above != 0) | rate.may_be_zero)
    np.divide(above, below, out=values, where=known)
    # Visits of different nodes are different things, so there is no average over all of them.
    divisor = 0 if averages else profile.whole[rate.below]
    amount = profile.whole[rate.above] if known_above else 0
    whole = amount * rate.factor / divisor if divisor else np.nan
    return Column(name, rate.unit, values, None, float(whole), "rate")


def quantile_column(
    profile: Profile, metric: str, percent: str | int, per_visit: bool = True
) -> Column:
    """Return the value that `percent` of a node's visits do not exceed; NaN without visits."""
    sketches = profile.sketches(metric, total=not per_visit)
    values = np.full(len(profile), np.nan)
    values[list(sketches)] = quantiles(sketches.values(), float(percent) / 100)
    unit = profile.metrics[metric].unit
    # Visits of different nodes are different things, as for averages.
    return Column(f"{metric}_p{percent}", unit, values, None, np.nan, "quantile")


def visits(profile: Profile, per_visit: bool = True) -> Values:
    """Return how often each node itself was entered; with `per_visit` off, its subtree's total.

    Top-down a subtree mixes launches with visits of scopes: only a node's own count says something.
    What was folded into a node is left out for the same reason.
    """
    if "count" not in profile.metrics:
        return np.zeros(len(profile))
    return np.asarray(profile.own["count"] if per_visit else profile.total("count"))
