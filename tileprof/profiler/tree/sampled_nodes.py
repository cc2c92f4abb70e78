"""Recent nodes of the main thread, to say what the host did while a device was idle.

In: looks of the sampler, in order of time.  Out: the nodes that it was at between two times.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from tileprof.profiler.tree.tree import Node

MOST = 65_536
"""Looks that are kept at least: some minutes, in 16 bytes each."""


class Trail:
    """The latest looks."""

    def __init__(self) -> None:
        self._looks: tuple[array[int], list[Node]] = (array("q"), [])
        """Their times, in ns, and nodes; of the last look there may be a node alone."""

    def add(self, now: int, node: Node) -> None:
        """Note where the thread is now, in ns."""
        times, nodes = self._looks
        if len(times) >= 2 * MOST:
            # New ones: another thread may be reading the old ones.
            self._looks = times, nodes = times[MOST:], nodes[MOST:]
        nodes.append(node)
        times.append(now)

    def between(self, begin: int, end: int) -> list[Node]:
        """Return the node of each look between two times, in ns."""
        times, nodes = self._looks
        return nodes[bisect_left(times, begin) : bisect_right(times, end)]
