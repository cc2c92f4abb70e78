"""The profile: a forest of calling contexts in columns, never changed after it is made.

A node is a parent, a symbol (what it is: kind, name, location, phase; stored once for all nodes
that share it) and a number per metric. A parent's index is below its children's, and children stand
in first-seen order.

    own + absorbed + totals of the children = total        for every node and metric

`own` is what was recorded at the node, `absorbed` what an operation folded into it from nodes that
it took away. `whole` is what the program amounts to; operations carry it along, and `check` holds
the tree against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tileprof.errors import Location, UsageError, from_extra, suggestion
from tileprof.once import cached_property
from tileprof.profile import metrics as law
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.sketch import Sketch
from tileprof.profile.tables import Tables
from tileprof.profile.tree.forest import depths, levels
from tileprof.profile.tree.node_sketches import subtrees
from tileprof.profile.tree.symbol import KINDS, Symbol

if TYPE_CHECKING:
    import pandas

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """A calling-context tree with metrics, as `load`, `analyze` and the views use it.

    Nodes are numbered from 0; a parent's number is smaller than those of its children. For every
    metric and node, own + absorbed + totals of the children = total. Times are in ns.

        profile = tileprof.load("run.tprof")
        (kernel,) = profile.find("matmul", kind="kernel")   # ids of matching nodes
        profile.node(kernel).total("time")                   # ns, including everything below
        profile.text()                                       # the tree, one line per node

    `repr` is a summary of at most ten lines.
    """

    symbols: tuple[Symbol, ...]
    symbol: npt.NDArray[np.int32]
    """Index of each node's symbol."""
    parents: npt.NDArray[np.int32]
    """Parent of each node; -1 at the top. Always below the node's own index."""
    metrics: Mapping[str, Metric]
    own: Mapping[str, Column]
    absorbed: Mapping[str, Column]
    whole: Mapping[str, int | float]
    """Value of the whole forest, keyed by metric; NaN where there is none."""
    tables: Tables = field(default_factory=Tables)

    def __len__(self) -> int:
        return len(self.parents)

    def __repr__(self) -> str:
        from tileprof.profile.tree.overview import card_of

        return card_of(self).text()

    def _repr_html_(self) -> str:
        """Return the summary as a notebook shows it."""
        from tileprof.profile.tree.overview import card_of

        return card_of(self).html()

    def text(self, metric: str | None = None) -> str:
        """Return the tree as plain text, a line per node; `metric` is `time` by default.

        Frames of libraries are left out: `frame()` and `tileprof view --frames all` have them.
        """
        from tileprof.profile.tree.overview import tree_text

        return tree_text(self, metric)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        return (
            np.array_equal(self.parents, other.parents)
            and self._labels == other._labels
            and self.metrics == other.metrics
            and all(_same(self.own[m], other.own[m]) for m in self.metrics)
            and all(_same(self.absorbed[m], other.absorbed[m]) for m in self.metrics)
            and self.tables == other.tables
        )

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays

    @property
    def _labels(self) -> list[Symbol]:
        return [self.symbols[i] for i in self.symbol.tolist()]

    @cached_property
    def kinds(self) -> list[str]:
        """Return the kind of each node."""
        return self._of_symbols([symbol.kind for symbol in self.symbols])

    @cached_property
    def names(self) -> list[str]:
        """Return the name of each node."""
        return self._of_symbols([symbol.name for symbol in self.symbols])

    @cached_property
    def locations(self) -> list[Location | None]:
        """Return each node's place in the source, or None."""
        return self._of_symbols([symbol.location for symbol in self.symbols])

    @cached_property
    def phases(self) -> list[str]:
        """Return each node's phase: `forward`, `backward` or nothing."""
        return self._of_symbols([symbol.phase for symbol in self.symbols])

    def _of_symbols(self, values: list[_T]) -> list[_T]:
        return [values[i] for i in self.symbol.tolist()]

    @cached_property
    def depths(self) -> npt.NDArray[np.int32]:
        """Return the number of nodes above each node."""
        return depths(self.parents)

    @cached_property
    def levels(self) -> list[npt.NDArray[np.int64]]:
        """The nodes of each depth, top level first."""
        return levels(self.depths)

    def total(self, metric: str) -> Column:
        """Return the inclusive value of each node; NaN where min, max or last has no value."""
        self.metric(metric)
        if metric not in self._totals:
            self._totals[metric] = self._total(self.metrics[metric])
        return self._totals[metric]

    @cached_property
    def _totals(self) -> dict[str, Column]:
        return {}

    def _total(self, metric: Metric) -> Column:
        total = law.wider(self.own[metric.name], self.absorbed[metric.name])
        everything = np.arange(len(self))
        law.scatter(metric, total, everything, self.absorbed[metric.name])
        if metric.adds != "last":
            for level in reversed(self.levels[1:]):
                law.scatter(metric, total, self.parents[level], total[level])
        total.setflags(write=False)
        return total

    def sketches(self, metric: str, total: bool = False) -> Mapping[int, Sketch]:
        """Return the sketches of a metric by node, of its own values or those of its subtree."""
        self.metric(metric)
        own = {node: s for (node, name), s in self.tables.sketches.items() if name == metric}
        if not total:
            return own
        if metric not in self._total_sketches:
            folded = self.tables.absorbed_sketches.items()
            absorbed = [(node, s) for (node, name), s in folded if name == metric]
            self._total_sketches[metric] = subtrees(self.parents, own.items(), absorbed)
        return self._total_sketches[metric]

    @cached_property
    def _total_sketches(self) -> dict[str, Mapping[int, Sketch]]:
        return {}

    def metric(self, name: str) -> Metric:
        """Return the metric of that name, else raise `UsageError` naming those that exist."""
        if name not in self.metrics:
            known = f"It has: {', '.join(self.metrics) or 'none'}."
            raise UsageError(
                f"the profile has no metric `{name}`", hint=suggestion(name, self.metrics) + known
            )
        return self.metrics[name]

    @cached_property
    def _children(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        # Node ids sorted by parent, and where each parent's run starts; slot 0: the top.
        order = np.argsort(self.parents, kind="stable")
        starts = np.zeros(len(self) + 2, np.int64)
        np.cumsum(np.bincount(self.parents + 1, minlength=len(self) + 1), out=starts[1:])
        return order, starts

    def children(self, node: int) -> list[int]:
        """Return the ids of a node's children in first-seen order."""
        order, starts = self._children
        found: list[int] = order[starts[node + 1] : starts[node + 2]].tolist()
        return found

    def roots(self) -> list[int]:
        """Return the ids of the top-level nodes in first-seen order."""
        return self.children(-1)

    def node(self, index: int) -> Node:
        """Return a view of one node; ids run from 0 to `len(profile) - 1`."""
        if not 0 <= index < len(self):
            raise UsageError(f"the profile has {len(self)} nodes, so no node {index}")
        return Node(self, index)

    def find(self, name: str | None = None, kind: str | None = None) -> list[int]:
        """Return the ids of all nodes of that name and kind; None stands for any.

        Raises `UsageError` for a kind that is none of `KINDS`.
        """
        if kind is not None and kind not in KINDS:
            raise UsageError(
                f"there is no kind `{kind}` of nodes",
                hint=f"{suggestion(kind, KINDS)}The kinds are: {', '.join(KINDS)}.",
            )
        wanted = [
            name in (None, symbol.name) and kind in (None, symbol.kind) for symbol in self.symbols
        ]
        return np.flatnonzero(np.array(wanted, bool)[self.symbol]).tolist()

    def path(self, node: int) -> list[int]:
        """Return the ids from the top level down to a node, itself included."""
        found: list[int] = []
        while node >= 0:
            found.append(node)
            node = int(self.parents[node])
        return found[::-1]

    def notes(self) -> list[str]:
        """Return a sentence for each metric whose derived own values fall below 0."""
        said = []
        for metric in self.metrics.values():
            slack = 1e-9 * np.abs(self.total(metric.name))
            below = int((self.own[metric.name] < -slack).sum()) if metric.inclusive else 0
            if below:
                said.append(
                    f"{metric.name}: {below} node{'s' * (below > 1)} recorded less than the "
                    "children together (they overlapped, or a visit was still open); "
                    "own is negative there"
                )
        return said

    def check(self) -> None:
        """Raise `InternalError` where the tree is malformed or a conservation law is broken."""
        from tileprof.profile.tree.checks import check

        check(self)

    def frame(self) -> pandas.DataFrame:
        """Return a table, a row per node, with columns `NAME` (total) and `NAME own` per metric.

        Raises `MissingDependencyError` where pandas is not installed.
        """
        with from_extra("pandas"):
            import pandas

        places = self.locations
        columns: dict[str, Any] = {
            "parent": self.parents,
            "depth": self.depths,
            "kind": self.kinds,
            "name": self.names,
            "file": [place.file if place else None for place in places],
            "line": np.array([place.line if place else 0 for place in places], np.int64),
            "function": [place.function if place else None for place in places],
            "phase": self.phases,
        }
        for name in self.metrics:
            columns[name] = self.total(name)
            columns[f"{name} own"] = self.own[name]
        return pandas.DataFrame(columns, index=pandas.RangeIndex(len(self), name="node"))

    def to_literal(self) -> list[Any]:
        """Return hatchet's JSON literal, as Proton writes it: `[root, devices]`."""
        from tileprof.profile.literal.writer import to_literal

        return to_literal(self)

    @staticmethod
    def from_literal(literal: object) -> Profile:
        """Return the profile of a hatchet literal, of Proton or hatchet; or `ProfileFileError`."""
        from tileprof.profile.literal.reader import from_literal

        return from_literal(literal)

    def to_hatchet(self) -> Any:
        """Return a `hatchet.GraphFrame`; `MissingDependencyError` where hatchet is not there."""
        from tileprof.profile.literal.writer import to_hatchet

        return to_hatchet(self)


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A read-only view of one node of a profile."""

    profile: Profile = field(repr=False)
    id: int

    def __repr__(self) -> str:
        from tileprof.profile.tree.cards import short

        return f"Node({self.id}: {self.kind} {short(self.name)})"

    @property
    def symbol(self) -> Symbol:
        """Symbol of the node."""
        return self.profile.symbols[int(self.profile.symbol[self.id])]

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return self.symbol.kind

    @property
    def name(self) -> str:
        """Function, scope, op or demangled kernel."""
        return self.symbol.name

    @property
    def location(self) -> Location | None:
        """Place in the source, where there is one."""
        return self.symbol.location

    @property
    def phase(self) -> str:
        """`forward`, `backward` or nothing."""
        return self.symbol.phase

    @property
    def parent(self) -> Node | None:
        """The node above, None at the top."""
        above = int(self.profile.parents[self.id])
        return Node(self.profile, above) if above >= 0 else None

    @property
    def children(self) -> list[Node]:
        """The nodes below, in first-seen order."""
        return [Node(self.profile, child) for child in self.profile.children(self.id)]

    def own(self, metric: str) -> int | float:
        """Return what was recorded at the node itself; NaN where min, max and last have nothing."""
        self.profile.metric(metric)
        return law.number(self.profile.own[metric][self.id])

    def total(self, metric: str) -> int | float:
        """Return the value of the node with its subtree."""
        return law.number(self.profile.total(metric)[self.id])

    def quantile(self, metric: str, q: float, total: bool = False) -> float:
        """Return what a share `q` (0 to 1) of the node's values reach at most, to 1.6 %.

        `total`: of the values of its subtree. NaN where only their sum is known.
        """
        self.profile.metric(metric)
        own = self.profile.tables.sketches.get((self.id, metric))
        sketch = self.profile.sketches(metric, total).get(self.id) if total else own
        return (sketch or Sketch.of(())).quantile(q)


def build(
    symbols: Sequence[Symbol],
    symbol: npt.ArrayLike,
    parents: npt.ArrayLike,
    metrics: Mapping[str, Metric],
    own: Mapping[str, npt.ArrayLike],
    absorbed: Mapping[str, npt.ArrayLike] | None = None,
    whole: Mapping[str, int | float] | None = None,
    tables: Tables | None = None,
) -> Profile:
    """Make a profile of plain columns; `whole` is theirs unless an operation carries it along."""
    indices = np.asarray(symbol, np.int32)
    held = absorbed or {}
    own_columns = {m.name: law.as_column(m, own[m.name]) for m in metrics.values()}
    absorbed_columns = {
        m.name: law.as_column(m, held.get(m.name, law.empty_column(m, len(indices))))
        for m in metrics.values()
    }
    if whole is None:
        whole = {
            name: law.combine(
                metric,
                law.reduce_column(metric, own_columns[name]),
                law.reduce_column(metric, absorbed_columns[name]),
            )
            for name, metric in metrics.items()
        }
    return Profile(
        symbols=tuple(symbols),
        symbol=_frozen(indices),
        parents=_frozen(np.asarray(parents, np.int32)),
        metrics=dict(metrics),
        own=own_columns,
        absorbed=absorbed_columns,
        whole=dict(whole),
        tables=tables or Tables(),
    )


def _frozen(column: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    copy = column.copy()
    copy.setflags(write=False)
    return copy


def _same(a: Column, b: Column) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))
