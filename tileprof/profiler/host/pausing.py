"""A recording that pauses and goes on, again and again, at a cost that does not grow with its tree.

Handing out the numbers of all nodes takes a microsecond each. So while nobody records, they stay in
the tree until somebody asks for them; scopes, which go on to count, count into spare numbers.
"""

from __future__ import annotations

from tileprof.profiler.host.store import Store
from tileprof.profiler.tree.totals import HostTotals
from tileprof.profiler.tree.tree import Tree


class Pause:
    """Owner of the tree's numbers while nobody records."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._spare: list[HostTotals] = []
        """Totals that nobody reads, by place in `tree.scopes`."""
        self.stores: list[Store] = []

    def begin(self, stores: list[Store]) -> None:
        """Keep what is in the tree for these."""
        self.stores = stores
        self._swap()

    def end(self) -> list[Store]:
        """Put everything as it was, and return whose the numbers are."""
        self._swap()
        stores, self.stores = self.stores, []
        return stores

    def _swap(self) -> None:
        scopes, spare = self._tree.scopes[:], self._spare
        spare += [HostTotals() for _ in range(len(scopes) - len(spare))]
        for at, node in enumerate(scopes):
            node.host, spare[at] = spare[at], node.host
