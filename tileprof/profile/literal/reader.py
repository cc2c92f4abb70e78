"""Reading a hatchet literal, of Proton's or hatchet's own making, without recursion."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from tileprof.errors import Location, ProfileFileError
from tileprof.profile import metrics as law
from tileprof.profile.literal.names import DEVICE_ID, DEVICES, ROOT, metric_of, place_of
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.tables import Tables
from tileprof.profile.transform.regroup import keys_of, rehang
from tileprof.profile.tree.builder import exclusive
from tileprof.profile.tree.forest import merge_siblings
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.symbol import KINDS, Symbol


def from_literal(literal: object) -> Profile:
    """Return the profile of a literal (what `json.load` gives); raises `ProfileFileError`."""
    elements = literal if isinstance(literal, list) else [literal]
    trees = [element for element in elements if _is_node(element)]
    tables = [element for element in elements if not _is_node(element)]
    if not trees or not all(isinstance(table, dict) for table in tables):
        raise ProfileFileError(
            "this is not a hatchet literal: a list of nodes with `frame` and `metrics` was expected"
        )
    reader = _Reader(proton=len(trees) == 1 and _name(trees[0]) == ROOT)
    for tree in trees:
        reader.tree(tree)
    devices = next((table for table in tables if table), None)
    profile = reader.profile(Tables(provenance={DEVICES: json.dumps(devices)} if devices else {}))
    # Siblings of one name are one node in this format, whoever wrote it.
    return rehang(profile, merge_siblings(profile.parents, keys_of(profile)))


def _is_node(element: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(element, dict) and isinstance(element.get("frame"), dict)


def _name(node: dict[str, Any]) -> str:
    frame = node["frame"]
    name = frame.get("name")
    # Hatchet puts the name of a node that is no function beside its frame.
    name = node.get("name") if name is None else name
    if not isinstance(name, str):
        raise ProfileFileError(f"a node of the hatchet literal has no name: {str(frame)[:80]}")
    return name


class _Reader:
    """Nodes in columns, in the order of the literal."""

    def __init__(self, proton: bool) -> None:
        self._proton = proton
        self._parents: list[int] = []
        self._symbols: list[Symbol] = []
        self._metrics: dict[str, Metric] = {}
        self._values: dict[str, dict[int, int | float]] = {}
        self._keys: dict[str, str] = {}
        self._seen: set[object] = set()

    def tree(self, root: dict[str, Any]) -> None:
        """Take in a node with its subtree."""
        pending: list[tuple[int, Any]] = [(-1, root)]
        while pending:
            parent, node = pending.pop()
            if not _is_node(node):
                raise ProfileFileError(
                    f"a node of the hatchet literal has no `frame`: {str(node)[:80]}"
                )
            index = self._node(parent, node)
            children = node.get("children") or []
            if not isinstance(children, list):
                raise ProfileFileError(f"`children` of `{_name(node)}` is not a list of nodes")
            pending.extend((index, child) for child in reversed(children))

    def _node(self, parent: int, node: dict[str, Any]) -> int:
        index = len(self._parents)
        metrics = node.get("metrics") or {}
        if not isinstance(metrics, dict):
            raise ProfileFileError(f"node `{_name(node)}` of the hatchet literal has no `metrics`")
        self._parents.append(parent)
        self._symbols.append(self._symbol(parent, node, metrics))
        if (number := metrics.get("_hatchet_nid")) is None or number not in self._seen:
            self._seen.add(number)
            for key, value in _numbers(metrics):
                self._value(index, key, value)
        return index

    def _symbol(self, parent: int, node: dict[str, Any], metrics: dict[str, Any]) -> Symbol:
        name = _name(node)
        place = place_of(name)
        if place is not None:
            name = place.function or name
        elif isinstance(metrics.get("location"), str):
            place = place_of(metrics["location"])
        phase = metrics.get("phase")
        kind = self._kind(parent, node, metrics, place)
        return Symbol(kind, name, place, phase if isinstance(phase, str) else "")

    def _kind(
        self, parent: int, node: dict[str, Any], metrics: dict[str, Any], place: Location | None
    ) -> str:
        for said in (metrics.get("kind"), node["frame"].get("type")):
            if said in KINDS:
                return str(said)
        if place is not None:
            # Proton hangs the sampled lines of a kernel below it, in the form of frames.
            inside = parent >= 0 and self._symbols[parent].kind in ("kernel", "line")
            return "line" if inside else "frame"
        if "device_id" in metrics:
            return "kernel"
        return "scope" if self._proton else "frame"

    def _value(self, node: int, key: str, value: int | float) -> None:
        if (name := self._keys.get(key)) is None:
            metric = DEVICE_ID if key == DEVICE_ID.name else metric_of(key)
            if metric.name in self._metrics:
                metric = Metric(key, "1")
            name = self._keys[key] = metric.name
            self._metrics[name] = metric
            self._values[name] = {}
        self._values[name][node] = value

    def profile(self, tables: Tables) -> Profile:
        """Return what was taken in; a ROOT without values of its own is left out."""
        own = {name: self._column(metric) for name, metric in self._metrics.items()}
        parents, symbols = np.array(self._parents, np.int32), self._symbols
        bare = self._proton and all(self._bare_root(m, own) for m in self._metrics.values())
        start = 1 if bare else 0
        parents = np.where(parents[start:] < start, -1, parents[start:] - start)
        held = {name: column[start:] for name, column in own.items()}
        used = {m.name: m for m in self._metrics.values() if law.present(m, held[m.name]).any()}
        places = np.arange(len(parents))
        return build(symbols[start:], places, parents, used, held, tables=tables)

    def _bare_root(self, metric: Metric, own: dict[str, Column]) -> bool:
        if metric.inclusive:
            # What is left of a total after its parts are taken away is rounding.
            recorded = self._values[metric.name].get(0, 0)
            return abs(law.number(own[metric.name][0])) <= 1e-9 * abs(recorded)
        return not law.present(metric, own[metric.name])[0]

    def _column(self, metric: Metric) -> Column:
        nothing = 0 if metric.adds == "sum" else math.nan
        values = self._values[metric.name]
        column = law.as_column(metric, [values.get(i, nothing) for i in range(len(self._parents))])
        return exclusive(column, np.array(self._parents, np.int32)) if metric.inclusive else column


def _numbers(metrics: dict[str, Any]) -> Iterator[tuple[str, int | float]]:
    for key, value in metrics.items():
        if key == DEVICE_ID.name and isinstance(value, str) and value.isdigit():
            yield key, int(value)
        elif key != "_hatchet_nid":
            values = value if isinstance(value, list) else [value]
            for i, item in enumerate(values):
                # Hatchet hands out NumPy's numbers, and NaN where a node has none.
                if isinstance(item, Real) and math.isfinite(item):
                    number = int(item) if isinstance(item, Integral) else float(item)
                    yield (f"{key}[{i}]" if isinstance(value, list) else key), number
