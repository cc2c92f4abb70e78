"""A profile as hatchet's JSON literal, as Triton's Proton writes it: `[root, devices]`.

    node    = {"frame": {"name": str, "type": "function"}, "metrics": {...}, "children": [node]}
    devices = {"CUDA": {"0": {"arch": "90", ...}}}

`ROOT` lists each metric that adds by sum with 0, since readers aggregate only those; values are own
values (own + absorbed), of inclusive metrics totals. Siblings of one name are merged. What the
format has no field for goes beside the metrics as text, as Proton's `device_type` does: `kind`,
`phase`, `location`. `names` tells how names are made, `reader` reads it back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tileprof.errors import UsageError, from_extra
from tileprof.profile import metrics as law
from tileprof.profile.metrics import Metric
from tileprof.profile.transform.regroup import rehang
from tileprof.profile.tree.forest import merge_siblings
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

from .names import DEVICE_ID, DEVICES, ROOT, metric_key, node_name, place_text


def to_literal(profile: Profile) -> list[Any]:
    """Return `[root, devices]`, ready for `json.dumps`."""
    devices = _devices(profile)
    tree = _merged_by_name(profile)
    nodes = _nodes(tree, devices)
    root = {metric_key(m): _root_value(tree, m) for m in tree.metrics.values() if m.adds == "sum"}
    return [_rooted([nodes[i] for i in tree.roots()], root), devices]


def to_hatchet(profile: Profile) -> Any:
    """Return a `hatchet.GraphFrame` with exclusive and inclusive columns, 0 where nothing was.

    Raises `MissingDependencyError` where hatchet is not installed, `UsageError` where the tree is
    deeper than hatchet's recursive reader can go.
    """
    with from_extra("hatchet"):
        import hatchet
    tree = _merged_by_name(profile)
    nodes = _nodes(tree, {})
    for metric in tree.metrics.values():
        if metric.adds == "sum" and not metric.inclusive:
            key, own = metric_key(metric), _shown(tree, metric)
            for node, value, total in zip(nodes, own.tolist(), tree.total(metric.name).tolist()):
                node["metrics"] |= {key: value, f"{key} (inc)": total}
    columns = {key: 0 for node in nodes for key, v in node["metrics"].items() if _is_number(v)}
    for name in columns:
        if name.endswith(" (inc)"):
            columns[name] = sum(nodes[i]["metrics"].get(name, 0) for i in tree.roots())
    literal = _rooted([nodes[i] for i in tree.roots()], columns)
    try:
        return hatchet.GraphFrame.from_literal([literal])
    except RecursionError:
        raise UsageError(
            "the tree is too deep for hatchet, which reads it by recursion",
            hint="Convert a shallower one: limit_depth(profile, 300).to_hatchet()",
        ) from None


def _rooted(tops: list[dict[str, Any]], metrics: Mapping[str, Any]) -> dict[str, Any]:
    if len(tops) == 1 and tops[0]["frame"]["name"] == ROOT:
        return tops[0] | {"metrics": {**metrics, **tops[0]["metrics"]}}
    return _node(ROOT, metrics, tops)


def _root_value(tree: Profile, metric: Metric) -> int | float:
    return tree.whole[metric.name] if metric.inclusive else 0


def _node(name: str, metrics: Mapping[str, Any], children: list[Any]) -> dict[str, Any]:
    frame = {"name": name, "type": "function"}
    return {"frame": frame, "metrics": metrics, "children": children}


def _merged_by_name(profile: Profile) -> Profile:
    numbers: dict[str, int] = {}
    by_symbol = [numbers.setdefault(node_name(s), len(numbers)) for s in profile.symbols]
    keys = np.array(by_symbol, np.int64)[profile.symbol]
    return rehang(profile, merge_siblings(profile.parents, keys))


def _shown(tree: Profile, metric: Metric) -> law.Column:
    if metric.inclusive:
        return tree.total(metric.name)
    column = law.wider(tree.own[metric.name], tree.absorbed[metric.name])
    law.scatter(metric, column, np.arange(len(tree)), tree.absorbed[metric.name])
    return column


def _nodes(tree: Profile, devices: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all nodes as literals, hung up below each other."""
    nodes = []
    for parent, symbol in zip(tree.parents.tolist(), tree.symbol.tolist()):
        node = _node(node_name(tree.symbols[symbol]), {}, [])
        nodes.append(node)
        if parent >= 0:
            nodes[parent]["children"].append(node)
    for metric in tree.metrics.values():
        if metric == DEVICE_ID:
            continue
        key, column = metric_key(metric), _shown(tree, metric)
        for i in np.flatnonzero(law.present(metric, column)).tolist():
            nodes[i]["metrics"][key] = law.number(column[i])
    for i, node in enumerate(nodes):
        node["metrics"] |= _device(tree, i, devices) | _texts(tree.symbols[int(tree.symbol[i])])
    return nodes


def _texts(symbol: Symbol) -> dict[str, str]:
    texts = {"kind": symbol.kind}
    if symbol.phase:
        texts["phase"] = symbol.phase
    if symbol.location is not None and symbol.kind not in ("frame", "line"):
        texts["location"] = place_text(symbol.location)
    return texts


def _device(tree: Profile, node: int, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    number = ""
    if DEVICE_ID.name in tree.metrics:
        value = float(tree.own[DEVICE_ID.name][node])
        number = "" if math.isnan(value) else str(int(value))
    elif (kernel := tree.tables.node_kernels.get(node)) is not None:
        name, _, number = tree.tables.kernels[kernel].device.partition(":")
        number = (number or "0") if name == "cuda" else ""
    if not number:
        return {}
    kinds = [kind for kind, known in devices.items() if number in known] or ["CUDA"]
    return {"device_id": number, "device_type": kinds[0]}


def _devices(profile: Profile) -> dict[str, dict[str, Any]]:
    try:
        devices = json.loads(profile.tables.provenance.get(DEVICES, "{}"))
    except ValueError:
        return {}
    return devices if _is_device_table(devices) else {}


def _is_device_table(element: object) -> bool:
    return isinstance(element, dict) and all(isinstance(known, dict) for known in element.values())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
