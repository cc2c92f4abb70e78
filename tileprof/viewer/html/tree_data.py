"""The calling-context tree as columns of JSON values.

In: a profile.  Out: for each node its parent, its symbol and what it holds itself of each metric;
symbols once each. Totals are left to the reader, who adds them up by the law of the metric.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.profile import KINDS, Column, Metric, Profile, Symbol, cut
from tileprof.profile.metrics import is_estimate
from tileprof.profile.transform.operations import with_ancestors
from tileprof.profile.tree.forest import nearest
from tileprof.profile.tree.overview import main_metric
from tileprof.viewer.text import encodable

_MOST_NODES = 20_000
"""Largest number of nodes on a page, by total.  20,000 with eight metrics weigh 1.7 MB."""
_DIGITS = 7
"""Digits of numbers that are no integers; the page never shows more than four."""

_Ids = npt.NDArray[np.int64]


def kept_tree(profile: Profile, most: int = _MOST_NODES) -> tuple[Profile, _Ids]:
    """Return the profile cut to some nodes, and each node's new place: itself or one above."""
    keep = np.ones(len(profile), bool)
    metric = main_metric(profile)
    if len(profile) > most and metric:
        keep[:] = False
        keep[np.argsort(-profile.total(metric), kind="stable")[:most]] = True
        keep = with_ancestors(profile, keep)
    home = nearest(profile.parents, keep)
    moved = np.where(home >= 0, (np.cumsum(keep) - 1)[home], -1)
    return (profile if keep.all() else cut(profile, keep)), moved


def tree_of(profile: Profile) -> dict[str, Any]:
    """Return the tree; `cut` is the number of symbols' columns, `main` the metric to draw."""
    metrics = profile.metrics.values()
    return {
        "main": main_metric(profile),
        "kinds": list(KINDS),
        "parents": profile.parents.tolist(),
        "symbol": profile.symbol.tolist(),
        "symbols": _symbols(profile.symbols),
        "metrics": [
            {
                "name": encodable(metric.name),
                "unit": encodable(metric.unit),
                "adds": metric.adds,
                "whole": number(profile.whole[metric.name]),
                "own": _own(profile, metric),
            }
            for metric in metrics
            if not is_estimate(metric.name) and np.any(np.nan_to_num(profile.total(metric.name)))
        ],
    }


def number(value: float) -> float | int | None:
    """Return a number for JSON: None for none, an integer where it is one, else few digits."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(f"{value:.{_DIGITS}g}")


def _own(profile: Profile, metric: Metric) -> list[float | int | None]:
    """Return what nodes hold themselves, including the operations folded into them."""
    own: Column = profile.own[metric.name]
    absorbed: Column = profile.absorbed[metric.name]
    if metric.adds == "sum":
        own = own + absorbed
    elif metric.adds == "min":
        own = np.fmin(own, absorbed)
    elif metric.adds == "max":
        own = np.fmax(own, absorbed)
    return [number(value) for value in own.tolist()]


def _symbols(symbols: tuple[Symbol, ...]) -> dict[str, list[Any]]:
    """Return columns of the symbols; each file is written once."""
    files: dict[str, int] = {"": 0}
    places = [symbol.location for symbol in symbols]
    return {
        "kind": [KINDS.index(symbol.kind) for symbol in symbols],
        "name": [encodable(symbol.name) for symbol in symbols],
        "phase": [symbol.phase for symbol in symbols],
        "file": [files.setdefault(place.file if place else "", len(files)) for place in places],
        "line": [place.line if place else 0 for place in places],
        "files": [encodable(file) for file in files],
    }
