"""What a launch spent at each site, one entry for each nesting path of sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ints", "PathTimes", "SiteTimes"]

Ints = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True, eq=False)
class SiteTimes:
    """Times of a launch by nesting path: entry i is site `site[i]` inside the path `parents[i]`.

    All arrays are int64 of one length; a parent stands before its children.  Times include what is
    nested inside.
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
    """Shortest visit."""
    max_ns: Ints
    """Longest visit."""
    blocks: Ints
    """Blocks that visited at least once."""
    block_min_ns: Ints
    """Least time that a visiting block spent here, over all its visits."""
    block_max_ns: Ints
    """Most time that a block spent here, over all its visits."""
    block_ns: int = 0
    """Time of all blocks whose records were kept, summed: what shares refer to."""
    lost: int = 0
    """Records that found their buffer full."""
    unmatched: int = 0
    """Records whose other end is missing; they count nowhere else."""

    def __len__(self) -> int:
        return len(self.site)

    def paths(self) -> list[tuple[int, ...]]:
        """For each entry, the site ids from the outermost to its own."""
        found: list[tuple[int, ...]] = []
        for parent, site in zip(self.parents.tolist(), self.site.tolist(), strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), site))
        return found

    def entries(self) -> list[PathTimes]:
        """The entries as plain numbers, a parent before its children."""
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
        """The times of several parts of a launch as one; entries of one path are combined.

        A parent that none of `entries` names (its end was lost) gets an entry with count 0.
        """
        rows: dict[tuple[int, ...], list[PathTimes]] = {}
        for each in entries:
            for depth in range(1, len(each.path)):
                rows.setdefault(each.path[:depth], [])
            rows.setdefault(each.path, []).append(each)
        ordered = _depth_first(list(rows))
        place = {path: at for at, path in enumerate(ordered)}

        def column(values: list[int]) -> Ints:
            return np.array(values, np.int64)

        def each_of(name: str, combine: Any) -> Ints:
            held = [[getattr(e, name) for e in rows[p]] for p in ordered]
            return column([combine(values) if values else 0 for values in held])

        return cls(
            column([place.get(p[:-1], -1) for p in ordered]),
            column([p[-1] for p in ordered]),
            each_of("count", sum),
            each_of("total_ns", sum),
            each_of("min_ns", min),
            each_of("max_ns", max),
            each_of("blocks", sum),
            each_of("block_min_ns", min),
            each_of("block_max_ns", max),
            block_ns,
            lost,
            unmatched,
        )

    @classmethod
    def merge(cls, parts: Sequence[SiteTimes]) -> SiteTimes:
        """The times of several launches of one kernel as one."""
        return cls.collect(
            [entry for part in parts for entry in part.entries()],
            block_ns=sum(p.block_ns for p in parts),
            lost=sum(p.lost for p in parts),
            unmatched=sum(p.unmatched for p in parts),
        )


def _depth_first(paths: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Children after their parent, siblings in the order in which they were first seen."""
    children: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for path in paths:
        children.setdefault(path[:-1], []).append(path)
    found: list[tuple[int, ...]] = []
    todo = children.get((), [])[::-1]
    while todo:
        path = todo.pop()
        found.append(path)
        todo += children.get(path, [])[::-1]
    return found
