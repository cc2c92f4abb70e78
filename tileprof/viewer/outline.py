"""The order in which a tree is drawn, and the lines that connect it.

Siblings come by value, largest first, equal ones as first seen. Nothing recurses: stacks are deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.viewer.text import Glyphs

_MARK_ROOM = 6  # an ellipsis, up to four digits and a space
_NAME_ROOM = 14


def levels_that_fit(depth: int, room: int, glyphs: Glyphs) -> int:
    """Return how many levels of a tree `depth` deep fit in `room` cells beside readable names."""
    step = len(glyphs.branch)
    if depth * step + _NAME_ROOM <= room:
        return depth
    return max((room - _NAME_ROOM - _MARK_ROOM) // step, 1)


def outline(
    parents: npt.NDArray[np.int32], keys: npt.NDArray[Any], levels: int, glyphs: Glyphs
) -> Iterator[tuple[int, str]]:
    """Yield every node and the tree lines before its name, top to bottom.

    Of a deeper node only the last `levels` levels are drawn, after a mark that counts the others.
    """
    keep = (levels - 1) * len(glyphs.branch)
    children = _Children(parents, keys)
    pending = [(node, 0, "", "") for node in reversed(children(-1))]
    while pending:
        node, depth, lines, below = pending.pop()
        mark = f"{glyphs.ellipsis}{depth - levels} " if depth > levels else ""
        yield node, mark + lines
        drawn = below[len(below) - keep :] if len(below) > keep else below
        for i, child in enumerate(reversed(children(node))):
            branch, through = (
                (glyphs.last, glyphs.blank) if i == 0 else (glyphs.branch, glyphs.through)
            )
            pending.append((child, depth + 1, drawn + branch, drawn + through))


class _Children:
    """Children of a node (-1: the top level), by descending key and then by first sight."""

    def __init__(self, parents: npt.NDArray[np.int32], keys: npt.NDArray[Any]) -> None:
        values = np.where(np.isnan(keys), -np.inf, keys)
        self._order = np.lexsort((np.arange(len(parents)), -values, parents))
        counts = np.bincount(parents + 1, minlength=len(parents) + 1)
        self._ends = np.concatenate(([0], np.cumsum(counts))).tolist()

    def __call__(self, node: int) -> list[int]:
        found: list[int] = self._order[self._ends[node + 1] : self._ends[node + 2]].tolist()
        return found
