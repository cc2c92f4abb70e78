"""A calling-context tree that grows while a program runs; repeats cost no memory.

`child` and `add` are the profiler's hot path. A node is found by one dictionary lookup with a key
that hashes fast: the location takes part by identity, and full equality is asked only at the first
sight of an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from tileprof.errors import Location, UsageError
from tileprof.profile import metrics as law
from tileprof.profile.metrics import STANDARD, Metric
from tileprof.profile.sketch import Sketch
from tileprof.profile.tables import Tables
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.symbol import KINDS, Symbol

MAX_SIBLINGS: Final = 1000
FOLDED_NAME: Final = f"(folded: more than {MAX_SIBLINGS:,} names)"
"""Name of the node that takes all further siblings of one kind and phase."""

_COMBINE: Final[dict[str, Callable[[float, float], float]]] = {
    # NaN stands for "no value yet" and loses every comparison.
    "min": lambda old, new: old if old <= new else new,
    "max": lambda old, new: old if old >= new else new,
    "last": lambda old, new: new,
}


class TreeBuilder:
    """A tree under construction; not locked: one thread at a time, or one builder per thread."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._symbol: list[int] = []
        self._symbols: list[Symbol] = []
        self._symbol_ids: dict[tuple[object, ...], int] = {}
        # By identity of the location: the one object that `_symbols` keeps alive.
        self._fast: dict[tuple[int, str, str, int, str], int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._siblings: dict[tuple[int, str, str], int] = {}
        self._metrics: dict[str, Metric] = {}
        self._sums: dict[str, list[float]] = {}
        self._others: dict[str, list[float]] = {}
        self._sketches: dict[tuple[int, str], Sketch] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def child(
        self,
        parent: int,
        kind: str,
        name: str,
        location: Location | None = None,
        phase: str = "",
    ) -> int:
        """Return the node of that symbol under `parent` (-1: at the top), made where it is new.

        Beyond `MAX_SIBLINGS` distinct symbols of a kind and phase, the rest share a folded node.
        """
        node = self._fast.get((parent, kind, name, id(location), phase))
        return self._intern(parent, kind, name, location, phase) if node is None else node

    def add(self, node: int, metric: str, value: int | float) -> None:
        """Combine a value into a node; standard metrics need no declaration."""
        try:
            self._sums[metric][node] += value
        except KeyError:
            self._add_other(node, metric, value)

    def sketch(self, node: int, metric: str, sketch: Sketch) -> None:
        """Say how values were spread that `add` was or will be given as a sum."""
        self._known(metric)
        if sketch.counts.size:
            known = self._sketches.get((node, metric))
            self._sketches[node, metric] = known.merge(sketch) if known else sketch

    def sums(self, metric: str) -> list[float]:
        """Return the live column of a metric that adds by sum, for `column[node] += value`."""
        self._known(metric)
        if metric not in self._sums:
            raise UsageError(f"metric `{metric}` does not add up by sum")
        return self._sums[metric]

    def declare(self, metric: Metric) -> None:
        """Make a metric known; raises `UsageError` where it contradicts an earlier declaration."""
        if (known := self._metrics.get(metric.name) or STANDARD.get(metric.name)) is not None:
            law.agree(known, metric)
        if metric.name not in self._metrics:
            columns, nothing = (self._sums, 0) if metric.adds == "sum" else (self._others, math.nan)
            columns[metric.name] = [nothing] * len(self._parents)
            self._metrics[metric.name] = metric

    def snapshot(self, tables: Tables | None = None) -> Profile:
        """Return the tree as it stands; the builder goes on. Metrics without a value are left out.

        Safe while another thread adds: what arrives meanwhile is in the next snapshot.
        """
        parents = np.array(self._parents[:], np.int32)
        count = len(parents)
        # Before the columns: so a sketch holds no more than the visits that are counted.
        sketches = self._sketches.copy()
        metrics: dict[str, Metric] = {}
        own: dict[str, law.Column] = {}
        for metric in list(self._metrics.values()):
            column = self._column(metric, parents, count)
            if law.present(metric, column).any():
                metrics[metric.name] = metric
                own[metric.name] = column
        held = {(n, m): s for (n, m), s in sketches.items() if n < count and m in metrics}
        tables = tables or Tables()
        tables = replace(tables, sketches={**tables.sketches, **held})
        return build(self._symbols, self._symbol[:count], parents, metrics, own, tables=tables)

    def _column(self, metric: Metric, parents: law.Index, count: int) -> law.Column:
        columns = self._sums if metric.adds == "sum" else self._others
        column = law.as_column(metric, columns[metric.name][:count])
        return exclusive(column, parents) if metric.inclusive else column

    def _known(self, metric: str) -> Metric:
        if metric not in self._metrics:
            if metric not in STANDARD:
                raise UsageError(
                    f"metric `{metric}` is not declared",
                    hint=f"Declare it: Metric({metric!r}, unit, adds), or use one of "
                    f"{', '.join(STANDARD)}.",
                )
            self.declare(STANDARD[metric])
        return self._metrics[metric]

    def _add_other(self, node: int, metric: str, value: float) -> None:
        adds = self._known(metric).adds
        if adds == "sum":
            self._sums[metric][node] += value
        else:
            column = self._others[metric]
            column[node] = _COMBINE[adds](column[node], value)

    def _intern(
        self, parent: int, kind: str, name: str, location: Location | None, phase: str
    ) -> int:
        symbol = Symbol(kind, name, location, phase)
        index = self._symbol_ids.get(key := symbol.key())
        if index is not None and (node := self._nodes.get((parent, index))) is not None:
            return self._remember(parent, index, location, node)
        if not -1 <= parent < len(self._parents) or kind not in KINDS:
            raise UsageError(
                f"no node can be of kind {kind!r} under node {parent}",
                hint=f"Kinds are {', '.join(KINDS)}; parents are -1 to {len(self._parents) - 1}.",
            )
        family = (parent, kind, phase)
        siblings = self._siblings.get(family, 0)
        if siblings >= MAX_SIBLINGS and name != FOLDED_NAME:
            return self.child(parent, kind, FOLDED_NAME, None, phase)
        self._siblings[family] = siblings + 1
        if index is None:
            index = self._symbol_ids[key] = len(self._symbols)
            self._symbols.append(symbol)
        return self._remember(parent, index, location, self._append(parent, index))

    def _remember(self, parent: int, index: int, location: Location | None, node: int) -> int:
        symbol = self._symbols[index]
        # A second, equal location object may die and leave its id to another one.
        if symbol.location is location:
            self._fast[parent, symbol.kind, symbol.name, id(location), symbol.phase] = node
        return node

    def _append(self, parent: int, index: int) -> int:
        node = len(self._parents)
        for column in self._sums.values():
            column.append(0)
        for column in self._others.values():
            column.append(math.nan)
        self._nodes[parent, index] = node
        self._symbol.append(index)
        # Last, so that a snapshot taken meanwhile finds every column long enough.
        self._parents.append(parent)
        return node


def exclusive(recorded: law.Column, parents: law.Index) -> law.Column:
    """Return own values of an inclusive column: recorded value less the children's totals.

    A node without a value (0) is given what its children amount to, so its own value is 0. Where
    the children amount to more than the node, its own value is negative; `Profile.notes` says so.
    """
    own: list[int | float] = recorded.tolist()
    inside: list[int | float] = [0] * len(own)
    for node in range(len(own) - 1, -1, -1):
        total = own[node] or inside[node]
        own[node] = total - inside[node]
        if (parent := int(parents[node])) >= 0:
            inside[parent] += total
    return law.as_column(Metric("inclusive", "1"), own)
