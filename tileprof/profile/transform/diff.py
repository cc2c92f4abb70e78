"""Two profiles laid over each other: one tree of matched nodes, both sides' numbers at each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tileprof.profile import metrics as law
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.tables import Tables
from tileprof.profile.transform.join import held, side_by_side, united_metrics
from tileprof.profile.transform.moved_lines import key_of_new, moved_lines
from tileprof.profile.tree.forest import Grown, Nodes, merge_siblings
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.node_sketches import carried

Status = Literal["both", "old", "new"]


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one number; NaN stands for a missing value."""

    old: int | float
    new: int | float

    @property
    def delta(self) -> int | float:
        """New less old; NaN where a side has none."""
        return self.new - self.old

    @property
    def ratio(self) -> float:
        """New over old; NaN where a side has none or the old one is 0."""
        return self.new / self.old if self.old else math.nan


@dataclass(frozen=True, slots=True, repr=False)
class Diff:
    """Two profiles on one tree: node `i` of `old` and node `i` of `new` are the same node."""

    old: Profile
    new: Profile
    status: tuple[Status, ...]
    """Side or sides that have the node, for each node."""

    def __len__(self) -> int:
        return len(self.status)

    def __repr__(self) -> str:
        return f"Diff({len(self)} nodes, {', '.join(self.metrics)})"

    def _repr_html_(self) -> str:
        """Return the sums of both sides and the greatest differences as a notebook shows them."""
        from tileprof.profile.tree.overview import card_of_diff

        return card_of_diff(self).html()

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of both sides."""
        return dict(self.old.metrics)

    def delta(self, metric: str) -> Column:
        """Return, per node, the new total less the old one."""
        column: Column = self.new.total(metric) - self.old.total(metric)
        return column

    def change(self, metric: str, node: int) -> Change:
        """Return what became of a node's total."""
        sides = (self.old.total(metric)[node], self.new.total(metric)[node])
        return Change(*(law.number(value) for value in sides))

    def whole(self, metric: str) -> Change:
        """Return what became of the whole program's number."""
        self.old.metric(metric)
        return Change(self.old.whole[metric], self.new.whole[metric])


def diff(old: Profile, new: Profile) -> Diff:
    """Match the nodes of two profiles along their paths; each side's sums are conserved.

    Lines that an edit has moved, and files in another folder, are matched by the files' texts and
    names; such nodes have their place in `new`.
    Each side keeps its own tables, node ids moved along. Raises `UsageError` where the two declare
    a metric differently.
    """
    forest = side_by_side([old, new])
    grown = merge_siblings(forest.parents, _keys(old, new, forest))
    symbol = forest.symbol[grown.first]
    symbol[grown.target[len(old) :]] = forest.symbol[len(old) :]
    metrics = united_metrics([old, new])
    before, after = grown.target[: len(old)], grown.target[len(old) :]
    sides = [
        build(
            forest.symbols,
            symbol,
            grown.parents,
            metrics,
            {m.name: _placed(m, held(p.own, m, len(p)), to, grown) for m in metrics.values()},
            {m.name: _placed(m, held(p.absorbed, m, len(p)), to, grown) for m in metrics.values()},
            {m.name: p.whole.get(m.name, _nothing(m)) for m in metrics.values()},
            _moved(p.tables, to),
        )
        for p, to in ((old, before), (new, after))
    ]
    return Diff(sides[0], sides[1], _status(len(grown.parents), before, after))


def _keys(old: Profile, new: Profile, forest: Profile) -> Nodes:
    """Return, per node of the forest, a number that two nodes share when they match."""
    moved, numbers = moved_lines(old, new), dict[tuple[object, ...], int]()
    keys = [*map(moved.key_of_old, old.symbols), *map(key_of_new, new.symbols)]
    by_symbol = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(by_symbol, np.int64)[forest.symbol]


def _placed(metric: Metric, values: Column, to: Column, grown: Grown) -> Column:
    column = law.empty_column(metric, len(grown.parents)).astype(values.dtype)
    law.scatter(metric, column, to, values)
    return column


def _nothing(metric: Metric) -> int | float:
    return 0 if metric.adds == "sum" else math.nan


def _moved(tables: Tables, to: Column) -> Tables:
    kernels = {int(to[node]): kernel for node, kernel in tables.node_kernels.items()}
    return replace(
        tables,
        node_kernels=kernels,
        sketches=carried(tables.sketches, to),
        absorbed_sketches=carried(tables.absorbed_sketches, to),
        timeline=tables.timeline.moved(to),
        track_totals=tables.track_totals.moved(to),
        pc=tables.pc.moved(to),
    )


def _status(count: int, before: Column, after: Column) -> tuple[Status, ...]:
    sides = np.zeros(count, np.int64)
    sides[before] = 1
    sides[after] += 2
    names: tuple[Status, ...] = ("old", "new", "both")
    return tuple(names[side - 1] for side in sides.tolist())
