"""Numbers that describe kernels, as columns: occupancy, registers, waves, bytes of local memory.

In: a profile whose tables hold attributes of kernels.  Out: the same profile with what a mean over
kernels is made of, and the mean of each node: over its kernels and those below it, by their time.

The parts of the mean are metrics that add up, so the mean survives whatever a view does to a tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from tileprof.profile import Metric, Profile
from tileprof.profile.tables import Attribute

Numbers: TypeAlias = npt.NDArray[np.float64]

_MARK = " of kernels by "
_TIME, _PRODUCT = f"time{_MARK}", f"product{_MARK}"
_SHARES = ("occupancy",)


def fact_names(profile: Profile) -> list[str]:
    """Return the names of kernels' numbers; a metric of the same name has precedence."""
    if "time" not in profile.metrics:
        return []
    kernels = profile.tables.kernels
    used = (kernels[i] for i in dict.fromkeys(profile.tables.node_kernels.values()))
    found = {name for kernel in used for name, n in kernel.attributes.items() if _is_number(n)}
    return sorted(found - profile.metrics.keys())


def is_part(metric: str) -> bool:
    """Return whether a metric is a part of a mean, and not one of the profile's own."""
    return _MARK in metric


def unit_of(name: str) -> str:
    """Return the unit: `share`, `bytes` or `1`."""
    if name in _SHARES:
        return "share"
    return "bytes" if name.endswith("_bytes") else "1"


def with_facts(profile: Profile, names: Iterable[str]) -> Profile:
    """Return the profile with the parts of the means of those names that are such numbers."""
    known = fact_names(profile)
    asked = [name for name in dict.fromkeys(names) if name in known]
    if not asked:
        return profile
    metrics, own = dict(profile.metrics), dict(profile.own)
    absorbed, whole = dict(profile.absorbed), dict(profile.whole)
    for name in asked:
        for kind, column in zip((_TIME, _PRODUCT), _parts(profile, name)):
            metric = Metric(f"{kind}{name}", "ns")
            metrics[metric.name], own[metric.name] = metric, column
            absorbed[metric.name] = np.zeros(len(profile))
            whole[metric.name] = float(column.sum())
    return replace(profile, metrics=metrics, own=own, absorbed=absorbed, whole=whole)


def mean_of(profile: Profile, name: str) -> tuple[Numbers, float]:
    """Return the mean of every node, NaN where no kernel says it, and of the whole."""
    times, products = profile.total(f"{_TIME}{name}"), profile.total(f"{_PRODUCT}{name}")
    means = np.full(len(profile), np.nan)
    np.divide(products, times, out=means, where=times != 0)
    time = profile.whole[f"{_TIME}{name}"]
    return means, float(profile.whole[f"{_PRODUCT}{name}"] / time) if time else np.nan


def _parts(profile: Profile, name: str) -> tuple[Numbers, Numbers]:
    """Return by node the time of kernels with the number, and their time times the number."""
    times, products = np.zeros(len(profile)), np.zeros(len(profile))
    spent, kernels = profile.total("time"), profile.tables.kernels
    for node, kernel in profile.tables.node_kernels.items():
        value = kernels[kernel].attributes.get(name)
        if _is_number(value):
            # A kernel that was not timed has its number too, and next to no weight.
            times[node] = max(float(spent[node]), 1.0)
            products[node] = times[node] * float(value)
    return times, products


def _is_number(value: Attribute | None) -> TypeGuard[int | float]:
    return isinstance(value, int | float)
