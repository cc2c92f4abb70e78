"""Recent nodes of the main thread, to say what the host did while a device was idle.

In: looks of the sampler, in order of time.  Out: the nodes that it was at between two times.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from tileprof.profiler.tree.tree import Node

MOST = 65_536
"""Looks that are kept at least: some minutes."""

_TIME = itemgetter(0)


class Trail:
    """The latest looks."""

    def __init__(self) -> None:
        self._looks: list[tuple[int, Node]] = []

    def add(self, now: int, node: Node) -> None:
        """Note where the thread is now, in ns."""
        if len(self._looks) >= 2 * MOST:
            # A new list: another thread may be reading the old one.
            self._looks = self._looks[MOST:]
        self._looks.append((now, node))

    def between(self, begin: int, end: int) -> list[Node]:
        """Return the node of each look between two times, in ns."""
        looks = self._looks
        first, last = bisect_left(looks, begin, key=_TIME), bisect_right(looks, end, key=_TIME)
        return [node for _, node in looks[first:last]]
