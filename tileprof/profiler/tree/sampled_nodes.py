"""Recent nodes of the main thread, to say what the host did while a device was idle.

In: looks of the sampler, in order of time.  Out: the nodes that it was at between two times.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tileprof.pages import pages
from tileprof.profiler.tree.tree import Node

MOST = 16_384
"""Looks that are kept at least: five minutes of 50 looks a second, in 16 bytes each. Devices' gaps
are asked for when a file is written, which is 10 s after they were, or few times as much."""


class Trail:
    """The latest looks."""

    def __init__(self) -> None:
        self._looks = _Looks()
        self._nodes: dict[int, Node] = {}
        """Nodes that were met, by index."""

    def add(self, now: int, node: Node) -> None:
        """Note where the thread is now, in ns."""
        looks = self._looks
        if looks.count == 2 * MOST:
            # New ones: another thread may be reading the old ones.
            self._looks = looks = looks.newer_half()
        self._nodes[node.index] = node
        looks.add(now, node.index)

    def between(self, begin: int, end: int) -> list[Node]:
        """Return the node of each look between two times, in ns."""
        looks = self._looks
        first = bisect_left(looks.times, begin, hi=looks.count)
        last = bisect_right(looks.times, end, hi=looks.count)
        return [self._nodes[index] for index in looks.indices[first:last]]


class _Looks:
    """Times and indices of nodes, in pages: a list that grows would leave holes in the heap. They
    are resident from the begin, for looks fill them over minutes."""

    def __init__(self) -> None:
        self.times, self.indices = (
            memoryview(pages(16 * MOST, resident=True)).cast("q") for _ in range(2)
        )
        """There is room for twice `MOST`."""
        self.count = 0

    def add(self, now: int, index: int) -> None:
        """Add the next one."""
        self.indices[self.count] = index
        self.times[self.count] = now
        self.count += 1

    def newer_half(self) -> _Looks:
        """Return the newest `MOST` of them."""
        half = _Looks()
        half.times[:MOST] = self.times[MOST : 2 * MOST]
        half.indices[:MOST] = self.indices[MOST : 2 * MOST]
        half.count = MOST
        return half
