"""The native recorder, where it is installed: contexts of operations, ranges and driver calls.

In: the recorder of a session and the events that `tileprof.native._recorder` sees by itself.  Out:
nodes of the tree for its contexts, and host time of operations.  One module serves a process, so
what it counts is cumulative; `Contexts` remembers what it has handed out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from tileprof.errors import Location
from tileprof.profile.node_names import CAPTURED
from tileprof.profiler.tree.module_names import Call
from tileprof.profiler.tree.path_cache import line_at
from tileprof.profiler.tree.paths import function_of, path_of, shares, shows
from tileprof.profiler.tree.totals import Parts
from tileprof.profiler.tree.tree import NATIVE, Node, Tree

_ROOT, _FRAME, _SCOPE, _OP, _BACKWARD, _RANGE, _API, _CAPTURED, _KERNEL, _NATIVE = range(10)

FEW_SAMPLES = 32
"""Newest sampled visits of an operation below which all samples of it count: a burst may have met
one of the many tensors that a loop goes through. Above, the newest alone, as shapes may change."""


class Sampled(NamedTuple):
    """Sums over visits of an operation; `profiler.tree.metrics` says what each is."""

    op_bytes: float = 0.0
    table_bytes: float = 0.0
    row_bytes: float = 0.0
    shared_table_bytes: float = 0.0
    slots: float = 0.0
    padding: float = 0.0


@dataclass(frozen=True, slots=True)
class HostPart:
    """Host time at a node, over one period."""

    node: Node
    count: int
    own_ns: int
    claimed_ns: int
    """Time of operations and calls right in a scope, in the thread that was in it."""
    flops: float
    bytes: float
    threads: Parts
    sampled: Sampled
    """Sums over an operation's visits, estimated from those that were sampled."""
    kinds: Mapping[int, tuple[float, float]]
    """Flops and bytes of an operation's visits by octave: the least flops per byte of each."""


class _Place(NamedTuple):
    """Node that a context stands for."""

    node: Node
    for_us: bool = False
    """Whether the frames further in were called by us and not by the program."""
    apart: tuple[list[Location], int] | None = None
    """The path to a scope whose frame is no caller, and how much of it the chain has shared."""
    callers: _Callers | None = None
    """The frames of the chain, where it ends in one."""


class _Callers(NamedTuple):
    """A frame's code and the offset of its instruction, and the frames around it."""

    code: CodeType
    offset: int
    around: _Callers | None

    def outwards(self) -> Iterator[Call]:
        """Yield this frame and those around it."""
        at: _Callers | None = self
        while at is not None:
            yield at.code, at.offset
            at = at.around


class Contexts:
    """The nodes of a tree for the contexts of the native recorder."""

    def __init__(self, native: ModuleType, tree: Tree, recording: int) -> None:
        self._native = native
        self._tree = tree
        self._recording = recording
        """Number of the recording: contexts of an earlier one name nodes of a tree that is gone."""
        self._raw: list[tuple[int, int, Any, int]] = [(0, _ROOT, 0, 0)]
        self._places: dict[int, _Place] = {0: _Place(tree.root)}
        self._names: dict[int, str] = {}
        self._told: dict[int, tuple[float, ...]] = {}
        self._told_kinds: dict[tuple[int, int], tuple[float, float]] = {}
        self._told_by_thread: dict[tuple[int, int], tuple[int, int]] = {}
        self._valued: dict[int, int] = {}
        """Visits of operations whose bytes were handed out, where that are not all."""
        self.skip()

    def node(self, context: int) -> Node:
        """Return the node of a context, made where it is new."""
        if context >= len(self._raw):
            self._raw += self._native.contexts(len(self._raw))
        chain = []
        while context not in self._places:
            chain.append(context)
            context = self._raw[context][0]
        place = self._places[context]
        for each in reversed(chain):
            place = self._places[each] = self._place(place, *self._raw[each][1:])
        return place.node

    def host_parts(self) -> list[HostPart]:
        """Return what was measured since the last call."""
        parts = []
        threads, kinds = self._threads(), self._kinds()
        for context, *now in self._native.host_times():
            before = self._told.get(context, (0,) * len(now))
            if before != tuple(now):
                self._told[context] = tuple(now)
                count, own, claimed, flops, moved, *sampled = (a - b for a, b in zip(now, before))
                told = self._estimated(context, now, sampled)
                node = self.node(context)
                numbers = int(count), int(own), int(claimed), flops, moved
                by_thread, by_octave = threads.get(context, {}), kinds.get(context, {})
                parts.append(HostPart(node, *numbers, by_thread, told, by_octave))
        return parts

    def _kinds(self) -> dict[int, dict[int, tuple[float, float]]]:
        """Return flops and bytes since the last call, by context and octave."""
        found: dict[int, dict[int, tuple[float, float]]] = {}
        for context, least, flops, moved in self._native.work_kinds():
            before = self._told_kinds.get((context, least), (0.0, 0.0))
            if before != (flops, moved):
                self._told_kinds[context, least] = flops, moved
                found.setdefault(context, {})[least] = flops - before[0], moved - before[1]
        return found

    def _threads(self) -> dict[int, Parts]:
        """Return what each thread did since the last call, by context."""
        found: dict[int, Parts] = {}
        for context, ident, count, own_ns in self._native.host_times_by_thread():
            before = self._told_by_thread.get((context, ident), (0, 0))
            if before != (count, own_ns):
                self._told_by_thread[context, ident] = count, own_ns
                # A thread may have ended, whose numbers another one goes on with.
                part = max(count - before[0], 0), max(own_ns - before[1], 0)
                found.setdefault(context, {})[ident] = part
        return found

    def _estimated(self, context: int, now: list[float], newest: list[float]) -> Sampled:
        """Return what a context's visits are of which that was not told, by its newest samples, or
        by all where these are few.

        Visits before the first sample are made up for when it comes.
        """
        count, sampled = int(now[0]), now[5:]
        moved, visits, *facts = newest if newest[1] >= FEW_SAMPLES else sampled
        if not visits:
            return Sampled()
        since = count - self._valued.get(context, 0)
        self._valued[context] = count
        return Sampled(*(max(since, 0) * each / visits for each in (moved, *facts)))

    def skip(self) -> None:
        """Count nothing of what was measured until now."""
        self._told = {context: tuple(now) for context, *now in self._native.host_times()}
        self._valued = {context: int(now[0]) for context, now in self._told.items()}
        self._told_by_thread, self._told_kinds = {}, {}
        self._threads()
        self._kinds()

    def _place(self, above: _Place, kind: int, a: Any, b: int) -> _Place:
        if kind == _FRAME:
            return self._frame(above, a, b)
        if kind == _SCOPE:
            node = self._known(a)
            return _Place(node, apart=(path_of(node), 0) if b else None)
        if kind == _KERNEL:
            return _Place(self._known(b << 32 | a))
        if kind == _NATIVE:
            return self._child(above, NATIVE, "", key=a)
        if kind == _CAPTURED:
            return self._captured(above, a)
        name = self._name(a)
        if kind == _RANGE:
            place = self._child(above, "scope", name, key=(name, self._name(b)))
            place.node.native = True
            return place
        if kind == _BACKWARD:
            return self._child(above, "op", name, phase="backward")
        return self._child(above, {_OP: "op", _API: "api"}[kind], name)

    def _known(self, number: int) -> Node:
        """Return the node that Python gave a number, with that of its recording above bit 32."""
        index = number & 0xFFFFFFFF
        known = number >> 32 == self._recording and index < len(self._tree.nodes)
        return self._tree.nodes[index] if known else self._tree.root

    def _child(
        self, above: _Place, kind: str, name: str, key: Hashable = None, phase: str | None = None
    ) -> _Place:
        return _Place(self._tree.child(above.node, kind, name, None, key, phase))

    def _frame(self, above: _Place, code: CodeType, offset: int) -> _Place:
        callers = _Callers(code, offset, above.callers)
        visible, for_us = shows(code, above.for_us)
        if not visible:
            return above._replace(for_us=for_us, callers=callers)
        outer = above.callers.outwards() if above.callers is not None else ()
        place = Location(code.co_filename, line_at(code, offset), function=function_of(code, outer))
        if above.apart is not None:
            path, shared = above.apart
            is_shared, goes_on = shares(path, shared, place)
            if is_shared:
                apart = (path, shared + 1) if goes_on else None
                return _Place(above.node, for_us, apart, callers)
        return _Place(self._tree.frame(above.node, place), for_us, callers=callers)

    def _captured(self, above: _Place, context: int) -> _Place:
        """Return the path on which something was captured, below the launch of its graph."""
        chain: list[Node] = []
        node: Node | None = self.node(context)
        while node is not None and node.parent is not None:
            chain.append(node)
            node = node.parent
        at = self._tree.child(above.node, "scope", CAPTURED, None)
        for each in reversed(chain):
            at = self._tree.like(at, each)
        return _Place(at)

    def _name(self, number: int) -> str:
        if number not in self._names:
            self._names[number] = self._native.name(number)
        return self._names[number]
