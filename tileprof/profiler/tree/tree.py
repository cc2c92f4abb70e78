"""The tree that grows while the program runs.

Nodes are interned and stay; their numbers are taken out as a whole when the set of active sessions
changes. CPython switches threads at calls and backward jumps only, so straight-line code such as
`totals.own_ns += x` is atomic and goes without a lock; growing takes one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from tileprof.errors import Location
from tileprof.profile import FOLDED_NAME, MAX_SIBLINGS
from tileprof.profiler.locks import new_lock
from tileprof.profiler.tree.path_cache import PathCache
from tileprof.profiler.tree.totals import HostTotals, LaunchTotals

MAX_NODES = 500_000
"""Beyond this many nodes new names fold at once, so that deep recursion cannot eat the memory."""

NATIVE = "native"
"""Kind of nodes that stand for a call in native code, which is their key; in a profile they become
frames."""

Identity: TypeAlias = tuple[str, Hashable, str]
"""Kind, name or what stands for it, phase."""

_NO_CACHE: PathCache[Node] = PathCache()


class Node:
    """A place in the tree; `kind` is empty for the root, which stands for no node of a profile."""

    __slots__ = ("cache", "children", "families", "host", "index", "key", "kind", "launches",
                 "location", "name", "native", "parent", "phase", "suspends", "timed",
                 "waits")  # fmt: skip

    def __init__(
        self,
        index: int,
        parent: Node | None,
        kind: str,
        name: str,
        location: Location | None,
        key: Identity | None = None,
    ) -> None:
        self.index = index
        self.parent = parent
        self.kind = kind
        self.name = name
        self.location = location
        self.key = key
        """Key that distinguishes it from its siblings."""
        self.phase = key[2] if key is not None else ""
        self.native = kind in ("op", "api", "kernel")
        """Whether the native recorder measures its host time; of scopes, those that are ranges."""
        self.suspends = False
        """Whether it is a scope that a generator leaves open while its caller goes on."""
        self.waits = False
        """Whether it is a scope that stays open while something else runs in its thread: as
        `suspends`, and those of coroutines."""
        self.timed = False
        """Whether it matters when a visit began."""
        self.children: dict[Identity, Node] = {}
        self.families: dict[str, int] = {}
        """Number of children of each kind."""
        self.host = HostTotals()
        self.launches = LaunchTotals() if kind == "kernel" else None
        self.cache: PathCache[Node] = PathCache() if kind in ("", "scope") else _NO_CACHE
        """Chains of frames that lead down from here; only scopes and the root have any."""

    @property
    def native_call(self) -> int | None:
        """Return the call in native code that this is, as the native recorder numbers it."""
        # One that took the place of too many siblings is none.
        call = self.key[1] if self.kind == NATIVE and self.key is not None else None
        return call if isinstance(call, int) else None

    def twin(self) -> Node:
        """Return a node in the same place with numbers of its own."""
        twin = Node(self.index, self.parent, self.kind, self.name, self.location, self.key)
        twin.children, twin.families, twin.cache = self.children, self.families, self.cache
        return twin


class Tree:
    """All nodes, parents before children; the first is the root."""

    def __init__(self) -> None:
        self.root = Node(0, None, "", "", None)
        self.nodes = [self.root]
        self.scopes: list[Node] = []
        self._timed = False
        self._lock = new_lock()

    def child(
        self,
        parent: Node,
        kind: str,
        name: str,
        location: Location | None,
        key: Hashable = None,
        phase: str | None = None,
    ) -> Node:
        """Return the node of that kind and key (the name, unless given) below `parent`.

        Its phase is that of `parent` unless given. Beyond `MAX_SIBLINGS` children of a kind,
        further ones share one folded node.
        """
        identity = (kind, name if key is None else key, parent.phase if phase is None else phase)
        return self._child(parent, name, location, identity)

    def frame(self, parent: Node, place: Location) -> Node:
        """Return the node of a Python frame below `parent`."""
        key = (place.function, place.file, place.line)
        return self._child(parent, place.function, place, ("frame", key, parent.phase))

    def like(self, parent: Node, other: Node) -> Node:
        """Return the node below `parent` that is to it what another node is to its own parent."""
        identity = other.key or (other.kind, other.name, other.phase)
        node = self._child(parent, other.name, other.location, identity)
        node.native = other.native
        return node

    def _child(
        self, parent: Node, name: str, location: Location | None, identity: Identity
    ) -> Node:
        node = parent.children.get(identity)
        if node is not None:
            return node
        with self._lock:
            node = parent.children.get(identity)
            return node or self._grow(parent, name, location, identity)

    def _grow(self, parent: Node, name: str, location: Location | None, identity: Identity) -> Node:
        kind, _, phase = identity
        crowded = len(self.nodes) >= MAX_NODES
        if crowded and parent.name == FOLDED_NAME:
            return parent
        if crowded or parent.families.get(kind, 0) >= MAX_SIBLINGS:
            name, location, identity = FOLDED_NAME, None, (kind, FOLDED_NAME, phase)
            if (folded := parent.children.get(identity)) is not None:
                return folded
        node = Node(len(self.nodes), parent, kind, name, location, identity)
        parent.families[kind] = parent.families.get(kind, 0) + 1
        self.nodes.append(node)
        if kind == "scope":
            node.timed = self._timed
            self.scopes.append(node)
        parent.children[identity] = node
        return node

    def time_visits(self, timed: bool) -> None:
        """Note when each visit of a scope begins, or only where it matters in any case."""
        self._timed = timed
        for node in self.scopes[:]:
            node.timed = timed or node.waits

    def forget_paths(self) -> None:
        """Drop all learned chains of frames."""
        for node in list(self.nodes):
            if node.cache is not _NO_CACHE:
                node.cache.clear()
