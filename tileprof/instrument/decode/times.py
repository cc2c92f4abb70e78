"""Times of a launch at each site, one entry for each nesting path of sites."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .buckets import PLACES, Histograms
from .imbalance import Spread
from .mark_costs import MarkCosts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_Node = TypeVar("_Node", bound=Hashable)
Counted = tuple[tuple[Ints, Ints], ...]
"""Counts of times of one path: places of `buckets` and how many are there, in several parts."""


@dataclass(frozen=True, slots=True)
class PathTimes:
    """One entry of `SiteTimes`, under the sites that were open around it."""

    path: tuple[int, ...]
    """Site ids, outermost first; the last one is the site itself."""
    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    blocks: int
    block_min_ns: int
    block_max_ns: int
    counted: Counted | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class SiteTimes:
    """Times of a launch by nesting path: entry i is site `site[i]` inside the path `parents[i]`.

    All arrays are int64 of one length; a parent stands before its children.  Times include what is
    nested inside.  What a block spent is the mean of its workers that were there.
    """

    parents: Ints
    """Entry of the enclosing path, -1 at the top."""
    site: Ints
    """Site id of the kernel."""
    count: Ints
    """Visits, summed over blocks."""
    total_ns: Ints
    """Time, summed over visits and blocks: with n workers up to n times the launch's own."""
    min_ns: Ints
    """Shortest visit, in ns."""
    max_ns: Ints
    """Longest visit, in ns."""
    blocks: Ints
    """Blocks that visited at least once."""
    block_min_ns: Ints
    """Least time that a visiting block spent here, over all its visits."""
    block_max_ns: Ints
    """Most time that a block spent here, over all its visits."""
    block_ns: int = 0
    """Time of all workers while their records were kept, summed: what shares refer to."""
    lost: int = 0
    """Records that found their buffer full."""
    unmatched: int = 0
    """Records or visits of which one end is missing.

    On a CPU these are records, which count nowhere else.  On a GPU these are visits: they count,
    with the time that is known of them, but not in the shortest, the longest and the quantiles.
    """
    histograms: Histograms | None = None
    """Times of whole visits; None where they were not recorded."""
    spread: Spread | None = None
    """None where it is not known."""
    clock_error: float = 0.0
    """Standard error of the length of a ns, as a share: all times may be off by it, together."""
    marks: MarkCosts | None = None
    """Cost of measuring; None where it is not known."""
    whole_ns: int = 0
    """Time like `block_ns`, including that in which records were lost; 0 where not known."""

    def __len__(self) -> int:
        return len(self.site)

    def quantile(self, q: float) -> Floats:
        """Return for each entry the time that a share `q` of its visits do not exceed.

        Times are known to 1.6 %; NaN where they are unknown.
        """
        return (
            np.full(len(self), np.nan) if self.histograms is None else self.histograms.quantile(q)
        )

    def paths(self) -> list[tuple[int, ...]]:
        """Return for each entry the site ids from the outermost to its own."""
        found: list[tuple[int, ...]] = []
        for parent, site in zip(self.parents.tolist(), self.site.tolist(), strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), site))
        return found

    def entries(self) -> list[PathTimes]:
        """Return the entries as plain numbers, a parent before its children."""
        columns = (self.count, self.total_ns, self.min_ns, self.max_ns)
        blocks = (self.blocks, self.block_min_ns, self.block_max_ns)
        numbers = zip(*(c.tolist() for c in (*columns, *blocks)), strict=True)
        return [PathTimes(p, *row) for p, row in zip(self.paths(), numbers, strict=True)]

    @classmethod
    def collect(
        cls,
        entries: Sequence[PathTimes],
        *,
        block_ns: int = 0,
        lost: int = 0,
        unmatched: int = 0,
    ) -> SiteTimes:
        """Return the times of several parts of a launch as one; entries of one path are combined.

        A parent that none of `entries` names (its end was lost) gets an entry with count 0.
        """
        rows: dict[tuple[int, ...], list[PathTimes]] = {}
        for each in entries:
            for depth in range(1, len(each.path)):
                rows.setdefault(each.path[:depth], [])
            rows.setdefault(each.path, []).append(each)
        ordered = depth_first({path: path[:-1] for path in rows}, ())
        made = [combine(rows[path]) if rows[path] else _unvisited(path) for path in ordered]
        count, total, least, most, blocks, block_least, block_most = _columns(made)
        return cls(
            *_tree(ordered),
            *(count, total, least, most, blocks, block_least, block_most),
            block_ns=block_ns,
            lost=lost,
            unmatched=unmatched,
            histograms=_histograms(made),
            spread=Spread.of_single_workers(total, blocks, block_least, block_most),
        )

    @classmethod
    def merge(cls, parts: Sequence[SiteTimes]) -> SiteTimes:
        """Return the times of several launches of one kernel as one."""
        if len(parts) == 1:
            return parts[0]
        found = [part.paths() for part in parts]
        ordered = depth_first({path: path[:-1] for paths in found for path in paths}, ())
        place = {path: at for at, path in enumerate(ordered)}
        rows = [np.array([place[path] for path in paths], np.int64) for paths in found]
        size = len(ordered)
        adds = _Rows(rows, size, [np.ones(len(part), np.bool_) for part in parts])
        visits = _Rows(rows, size, [part.count > 0 for part in parts])
        histograms = [part.histograms for part in parts if part.histograms is not None]
        spreads = [part.spread for part in parts if part.spread is not None]
        marks = [part.marks for part in parts if part.marks is not None]
        return cls(
            *_tree(ordered),
            adds.sum([part.count for part in parts]),
            adds.sum([part.total_ns for part in parts]),
            visits.least([part.min_ns for part in parts]),
            visits.most([part.max_ns for part in parts]),
            adds.sum([part.blocks for part in parts]),
            visits.least([part.block_min_ns for part in parts]),
            visits.most([part.block_max_ns for part in parts]),
            sum(part.block_ns for part in parts),
            sum(part.lost for part in parts),
            sum(part.unmatched for part in parts),
            Histograms.merge(histograms, rows, size) if len(histograms) == len(parts) else None,
            Spread.merge(spreads, rows, size) if len(spreads) == len(parts) > 0 else None,
            float(np.max([part.clock_error for part in parts], initial=0.0)),
            MarkCosts.merge(marks, rows, size) if len(marks) == len(parts) > 0 else None,
            sum(part.whole_ns for part in parts),
        )


class _Rows:
    """Columns of several parts, put together: entry i of part p belongs to row `rows[p][i]`."""

    def __init__(self, rows: Sequence[Ints], size: int, kept: Sequence[NDArray[np.bool_]]) -> None:
        self.kept = kept
        self.rows = [row[keep] for row, keep in zip(rows, kept)]
        self.size = size

    def sum(self, columns: Sequence[Ints]) -> Ints:
        return self._joined(np.add, columns, 0)

    def least(self, columns: Sequence[Ints]) -> Ints:
        none = np.iinfo(np.int64).max
        made = self._joined(np.minimum, columns, none)
        return np.where(made == none, 0, made)

    def most(self, columns: Sequence[Ints]) -> Ints:
        return self._joined(np.maximum, columns, 0)

    def _joined(self, join: np.ufunc, columns: Sequence[Ints], none: int) -> Ints:
        """Return one number for each row; `none` for a row without entries."""
        made = np.full(self.size, none, np.int64)
        for row, keep, column in zip(self.rows, self.kept, columns):
            join.at(made, row, column[keep])
        return made


def combine(parts: Sequence[PathTimes]) -> PathTimes:
    """Return one entry of several parts of a launch, which are of one path."""
    if len(parts) == 1:
        return parts[0]
    counted = [part.counted for part in parts]
    return PathTimes(
        parts[0].path,
        sum(part.count for part in parts),
        sum(part.total_ns for part in parts),
        min(part.min_ns for part in parts),
        max(part.max_ns for part in parts),
        sum(part.blocks for part in parts),
        min(part.block_min_ns for part in parts),
        max(part.block_max_ns for part in parts),
        None if None in counted else tuple(each for part in counted if part for each in part),
    )


def _unvisited(path: tuple[int, ...]) -> PathTimes:
    return PathTimes(path, 0, 0, 0, 0, 0, 0, 0, ())


def _columns(entries: list[PathTimes]) -> tuple[Ints, ...]:
    """Return the columns of `SiteTimes` from `count` on."""
    names = ("count", "total_ns", "min_ns", "max_ns", "blocks", "block_min_ns", "block_max_ns")
    return tuple(np.array([getattr(e, name) for e in entries], np.int64) for name in names)


def _histograms(entries: list[PathTimes]) -> Histograms | None:
    """Return the histograms of all entries; None where some entry has no times."""
    keys, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, entry in enumerate(entries):
        if entry.counted is None:
            return None
        keys += [number * PLACES + place for place, _ in entry.counted]
        counts += [count for _, count in entry.counted]
    return Histograms.of_places(np.concatenate(keys), np.concatenate(counts), len(entries))


def _tree(paths: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """Return for each path the position of its parent, and its site."""
    place = {path: at for at, path in enumerate(paths)}
    parents = [place.get(path[:-1], -1) for path in paths]
    return np.array(parents, np.int64), np.array([path[-1] for path in paths], np.int64)


def depth_first(parents: Mapping[_Node, _Node], root: _Node) -> list[_Node]:
    """Return the nodes below a root, each after its parent and before the next one beside that.

    parents: the parent of each node; siblings are in the order of its keys.
    """
    children: dict[_Node, list[_Node]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    found: list[_Node] = []
    todo = children.get(root, [])[::-1]
    while todo:
        found.append(node := todo.pop())
        todo += children.get(node, [])[::-1]
    return found
