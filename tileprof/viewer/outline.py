"""The order in which a tree is drawn, and the lines that connect it.

Siblings come by value, largest first, equal ones as first seen; some may be kept for the end.
Nothing recurses: stacks are deep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.profile.tree.forest import depths, levels
from tileprof.viewer.text import Glyphs

_MARK_ROOM = 6  # an ellipsis, up to four digits and a space
_NAME_ROOM = 14


class Outline:
    """A forest as lines from top to bottom, in which every subtree is one run of lines.

    In: the parent of each node (-1: at the top, else a smaller number than the node's own), the
    values by which siblings come, and nodes that come after all siblings that are none of these.
    """

    def __init__(
        self,
        parents: npt.NDArray[np.int32],
        keys: npt.NDArray[Any],
        late: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.parents = parents
        self.depths: npt.NDArray[np.int32] = depths(parents)
        """Number of nodes above each node."""
        self.sizes = np.ones(len(parents), np.int64)
        """Number of lines of each node's subtree, its own included."""
        self.positions = np.zeros(len(parents), np.int64)
        """Line of each node, counted from 0."""
        self.order = np.zeros(len(parents), np.int64)
        """Node on each line."""
        self.is_last = np.zeros(len(parents), bool)
        """True for the last one of siblings."""
        values = np.where(np.isnan(keys), -np.inf, keys)
        last = np.zeros(len(parents), bool) if late is None else late
        siblings = np.lexsort((np.arange(len(parents)), -values, last, parents))
        if len(siblings):
            above = parents[siblings]
            self.is_last[siblings] = np.append(above[1:] != above[:-1], True)
            self._place(siblings)

    def _place(self, siblings: npt.NDArray[np.int64]) -> None:
        """Fill sizes and lines; `siblings` has the nodes by parent, then in their order."""
        by_level = levels(self.depths)
        for level in reversed(by_level[1:]):
            np.add.at(self.sizes, self.parents[level], self.sizes[level])
        # Lines from the first one below a parent to each node: what its elder siblings take.
        sizes = self.sizes[siblings]
        before, is_first = np.cumsum(sizes) - sizes, np.ones(len(siblings), bool)
        is_first[1:] = self.is_last[siblings[:-1]]
        self.positions[siblings] = before - before[is_first][np.cumsum(is_first) - 1]
        for level in by_level[1:]:
            self.positions[level] += self.positions[self.parents[level]] + 1
        self.order[self.positions] = np.arange(len(siblings))

    def __len__(self) -> int:
        return len(self.parents)

    def highest(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return, by node, the largest value in its subtree; NaN counts as none."""
        found = np.nan_to_num(np.asarray(values, np.float64), nan=-np.inf)
        for level in reversed(levels(self.depths)[1:]):
            np.maximum.at(found, self.parents[level], found[level])
        return found


class Branches:
    """Tree lines before the names of an outline, drawn for one node at a time.

    Of a node deeper than `levels`, only the last `levels` levels are drawn, after a mark that
    counts the others.
    """

    def __init__(self, outline: Outline, levels: int, glyphs: Glyphs) -> None:
        self._outline, self._levels, self._glyphs = outline, levels, glyphs
        self._above: dict[int, str] = {}
        """Lines that children of a node have before their own branch."""

    def __call__(self, node: int) -> str:
        """Return what stands before the name of a node."""
        outline, glyphs = self._outline, self._glyphs
        depth = int(outline.depths[node])
        if not depth:
            return ""
        branch = glyphs.last if outline.is_last[node] else glyphs.branch
        hidden = depth - self._levels
        mark = f"{glyphs.ellipsis}{hidden} " if hidden > 0 else ""
        return f"{mark}{self._through(int(outline.parents[node]))}{branch}"

    def _through(self, parent: int) -> str:
        if (known := self._above.get(parent)) is not None:
            return known
        outline, glyphs, drawn, node = self._outline, self._glyphs, list[str](), parent
        while len(drawn) < self._levels - 1 and outline.parents[node] >= 0:
            drawn.append(glyphs.blank if outline.is_last[node] else glyphs.through)
            node = int(outline.parents[node])
        self._above[parent] = "".join(reversed(drawn))
        return self._above[parent]


def levels_that_fit(depth: int, room: int, glyphs: Glyphs) -> int:
    """Return how many levels of a tree `depth` deep fit in `room` cells beside readable names."""
    step = len(glyphs.branch)
    if depth * step + _NAME_ROOM <= room:
        return depth
    return max((room - _NAME_ROOM - _MARK_ROOM) // step, 1)
