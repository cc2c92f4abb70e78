"""Profiles and diffs as plain JSON objects, in the shapes that scripts rely on.

    {"schema": 1, "metrics": {name: {"unit", "adds"}},
     "nodes": [{"id", "parent", "kind", "name", "location", "phase",
                "metrics": {name: {"own", "total"}}}]}

In a diff a node has a "status" (both, old, new) too, and its metrics are {"old", "new", "delta",
"ratio"} of totals. A metric stands at the nodes that have a value of it: not 0 for sums. "parent"
is null at the top, "location" and "phase" null where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tileprof.profile import metrics as law
from tileprof.profile.metrics import Metric
from tileprof.profile.transform.diff import Diff
from tileprof.profile.tree.model import Profile

SCHEMA = 1


def to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON objects, node ids as in the profile."""
    nodes = _nodes(profile)
    for name, metric in profile.metrics.items():
        own, total = profile.own[name], profile.total(name)
        shown = law.present(metric, own) | law.present(metric, total)
        ids = shown.nonzero()[0]
        for i, mine, all_ in zip(ids.tolist(), own[ids].tolist(), total[ids].tolist()):
            nodes[i]["metrics"][name] = {"own": finite(mine), "total": finite(all_)}
    return {"schema": SCHEMA, "metrics": _metrics(profile.metrics.values()), "nodes": nodes}


def diff_to_json(diff: Diff) -> dict[str, Any]:
    """Return a diff as JSON objects; a number that does not exist is null."""
    nodes = _nodes(diff.old)
    for node, status in zip(nodes, diff.status):
        metrics = node.pop("metrics")
        node |= {"status": status, "metrics": metrics}
    for name, metric in diff.metrics.items():
        old, new = diff.old.total(name), diff.new.total(name)
        for i in (law.present(metric, old) | law.present(metric, new)).nonzero()[0].tolist():
            change = diff.change(name, i)
            nodes[i]["metrics"][name] = {
                "old": finite(change.old),
                "new": finite(change.new),
                "delta": finite(change.delta),
                "ratio": finite(change.ratio),
            }
    return {"schema": SCHEMA, "metrics": _metrics(diff.metrics.values()), "nodes": nodes}


def _metrics(metrics: Iterable[Metric]) -> dict[str, dict[str, str]]:
    return {metric.name: {"unit": metric.unit, "adds": metric.adds} for metric in metrics}


def _nodes(profile: Profile) -> list[dict[str, Any]]:
    symbols = [
        (s.kind, s.name, s.location and s.location.to_json(), s.phase) for s in profile.symbols
    ]
    nodes = []
    for i, (parent, symbol) in enumerate(zip(profile.parents.tolist(), profile.symbol.tolist())):
        kind, name, location, phase = symbols[symbol]
        nodes.append(
            {
                "id": i,
                "parent": None if parent < 0 else parent,
                "kind": kind,
                "name": name,
                "location": location,
                "phase": phase or None,
                "metrics": {},
            }
        )
    return nodes


def finite(value: float) -> float | None:
    """Return a number; None, JSON's null, where it is infinite or NaN."""
    return value if math.isfinite(value) else None
