"""`tileprof.scope`: a name for a piece of the program, as a `with` block or on a function.

Programs keep their scopes when nobody profiles, so that case must cost next to nothing: scopes come
out of a cache, and while no session exists, `Scope.__enter__` and `__exit__` are two C functions
that do nothing (`install` swaps the real ones in). Together 0.11 µs; empty Python methods: 0.2 µs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, TypeVar, cast

from tileprof.errors import Location, UsageError
from tileprof.profile import checked_value
from tileprof.profiler.host.decorate import wrapped
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.options import Options
from tileprof.profiler.tree.metrics import ELAPSED_TIME, RESERVED
from tileprof.profiler.tree.path_cache import Link, follow
from tileprof.profiler.tree.paths import place_of
from tileprof.profiler.tree.tree import Node

from .entries import ABOVE, BEGAN, BELOW, NODE, SCOPE, STOP, THREAD, Entry, enclosing, top

_Function = TypeVar("_Function", bound=Callable[..., Any])

_recorder: Recorder
"""Set by `install`; the methods of `Scope` that use it are not in place before."""

_nowhere: Callable[[], object] = ().__len__
_inside = _nowhere
"""Whether the thread is in an operation inside the innermost scope; set by `install`."""
_clock: Callable[[], int]
_tracing = False
"""Whether visits are put on a timeline; set by `trace`."""

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
_CONTEXT_MANAGERS = tuple(
    function.__code__
    for function in (
        contextlib._GeneratorContextManager.__enter__,
        contextlib._AsyncGeneratorContextManager.__aenter__,
    )
)
"""Code that runs a generator up to its `yield` for a `with` block."""

_get_ident = threading.get_ident
_getframe = sys._getframe
_get_top = top.get
_set_top = top.set


class Scope:
    """A named piece of the program: `with` it as often as you like, or decorate functions.

    It holds no state of a visit, so one object serves all threads and recursion.
    """

    __slots__ = ("location", "metrics", "name")

    def __init__(
        self, name: str, metrics: dict[str, Any], location: Location | None = None
    ) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a scope is named {name!r}", hint="Give a text that is not empty.")
        self.name = name
        self.metrics = {key: _checked(key, value) for key, value in metrics.items()} or None
        self.location = location
        """Location of the decorated function; otherwise the place of the first visit is shown."""

    def __call__(self, function: _Function) -> _Function:
        """Put the scope around each call of a function, generator or coroutine."""
        code = getattr(function, "__code__", None)
        place = self.location
        if code is not None:
            place = Location(code.co_filename, code.co_firstlineno, function=code.co_qualname)
        return wrapped(function, Scope(self.name, self.metrics or {}, place))

    def __enter__(self) -> None:
        recorder = _recorder
        above = _get_top()
        if above[THREAD].ident != _get_ident():
            above = recorder.adopt(above)
        _, _, parent, thread, stop, _, _ = above
        frame = _getframe(1)
        anchor = parent.cache.scopes.get(self.name)
        if _inside() and recorder.events is not None:
            node = recorder.events.below(self.name, self.location)
        elif anchor is None:
            node = None
        elif recorder.frames:
            node = follow(anchor, frame, stop)
        else:
            node = anchor.at_stop
        if node is None:
            node = self._learn(recorder, above, frame, anchor)
        host = node.host
        if host.thread != thread.key:
            host.enter_thread(thread.key, host.count)
        host.count += 1
        if self.metrics is not None:
            for metric, value in self.metrics.items():
                host.add(metric, value)
        current = thread.current
        entry = [above, current, node, thread, frame, self, 0]
        _set_top(entry)
        # Last, so that the scope pays for none of the above.
        now = _clock()
        current[NODE].host.own_ns += now - thread.last
        thread.last = now
        thread.current = entry
        if node.timed:
            entry[BEGAN] = now

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        now = _clock()
        entry = _get_top()
        above, below, node, thread, stop, scope, began = entry
        if (
            scope is self
            and stop is _getframe(1)
            and thread.current is entry
            and below is above
            and above[SCOPE] is not None
        ):
            node.host.own_ns += now - thread.last
            thread.last = now
            entry[SCOPE] = entry[STOP] = None
            thread.current = above
            _set_top(above)
            if began:
                _trace(node, began, now)
        else:
            _close(_opened_by(self, entry, _getframe(1)), now)

    def _learn(
        self, recorder: Recorder, above: Entry, frame: FrameType, anchor: Link[Node] | None
    ) -> Node:
        around = enclosing(above, frame)
        if around is not above:
            anchor = around[NODE].cache.scopes.get(self.name)
        parent: Node = around[NODE]
        anchor = anchor or Link()

        def finish(last: Node, place: Location | None) -> Node:
            return recorder.tree.child(last, "scope", self.name, self.location or place)

        if recorder.frames:
            node, kept = recorder.paths.find(anchor, frame, parent, around[STOP], finish)
        else:
            node = anchor.at_stop = finish(parent, place_of(frame))
            kept = node.name == self.name
        # Below a scope that may be passed over, that is asked at each visit.
        if kept and not parent.suspends:
            parent.cache.scopes[self.name] = anchor
        if kept:
            _learn_waiting(recorder, node, frame)
        return node


def _learn_waiting(recorder: Recorder, node: Node, frame: FrameType) -> None:
    """Note of a scope whether its frame may stop in the middle of a visit, and others go on."""
    flags = frame.f_code.co_flags
    suspends, waits = bool(flags & _GENERATOR), bool(flags & (_GENERATOR | _COROUTINE))
    caller = frame.f_back
    if suspends and caller is not None and caller.f_code in _CONTEXT_MANAGERS:
        # Its visit is that of the `with` block around what runs meanwhile.
        suspends = waits = False
    first = node.host.count == 0
    node.suspends = suspends and (first or node.suspends)
    node.waits = waits and (first or node.waits)
    node.timed = node.timed or node.waits
    if node.waits and not recorder.waits:
        recorder.begin_waits()


def _close(entry: Entry | None, now: int) -> None:
    """Close an entry that is not simply the last one of its thread: tasks, generators."""
    if entry is None:
        return
    thread = entry[THREAD]
    current = thread.current
    current[NODE].host.own_ns += now - thread.last
    thread.last = now
    entry[SCOPE] = entry[STOP] = None
    if entry[BEGAN]:
        _trace(entry[NODE], entry[BEGAN], now)
    while current[SCOPE] is None:
        current = current[BELOW]
    thread.current = current
    innermost = top.get()
    while innermost[SCOPE] is None:
        innermost = innermost[ABOVE]
    top.set(innermost)


def _trace(node: Node, began: int, now: int) -> None:
    if node.waits:
        node.host.add(ELAPSED_TIME.name, now - began)
    if _tracing and _recorder.events is not None:
        _recorder.events.trace_scope(node.index, began, now)


def _opened_by(scope: Scope, innermost: Entry, frame: FrameType) -> Entry | None:
    """Return the entry that this exit closes: of this frame, else (an exit stack's) the innermost.
    None where the scope was entered before there was a recorder, or in another thread."""
    other: Entry | None = None
    entry: Entry | None = innermost
    while entry is not None:
        if entry[SCOPE] is scope and entry[THREAD].ident == _get_ident():
            if entry[STOP] is frame:
                return entry
            other = other or entry
        entry = entry[ABOVE]
    return other


def _checked(metric: str, value: Any) -> int | float:
    if metric in RESERVED:
        raise UsageError(
            f"a scope cannot set the metric `{metric}`: it is measured",
            hint="Use flops=, bytes= or a name of your own.",
        )
    return checked_value(metric, value)


class _MakeScope(Protocol):
    def __call__(self, name: str, **metrics: float) -> Scope: ...


@functools.lru_cache(maxsize=1024)
def _scope(name: str, **metrics: Any) -> Scope:
    """Name a part of the program: a `with` block, or a decorator of functions and coroutines.

    `flops=` and `bytes=` state the work of one visit, including everything inside it. Other
    keywords are metrics of your own. All are numbers that are summed over visits. Without a
    session, a scope costs next to nothing. Raise `UsageError` for a value that is not a number.

        with tileprof.scope("forward", flops=2 * m * n * k):
            y = model(x)

        @tileprof.scope("load")
        def load(): ...
    """
    return Scope(name, metrics)


scope = cast(_MakeScope, _scope)

_real = (Scope.__enter__, Scope.__exit__)


def install(recorder: Recorder | None) -> None:
    """Let scopes report to a recorder, or do nothing at all."""
    global _recorder, _inside, _clock, _tracing
    events = recorder.events if recorder is not None else None
    _inside = events.inside if events is not None else _nowhere
    if recorder is None:
        # Another thread may be inside one of the methods, and needs something to talk to.
        _recorder = Recorder(Options())
        _recorder.close()
    else:
        _recorder = recorder
    _clock, _tracing = _recorder.clock, _recorder.tracing
    enter, leave = _real if recorder is not None else ([].clear, "".format)
    Scope.__enter__, Scope.__exit__ = enter, leave  # type: ignore[method-assign,assignment]


def trace(visits: bool) -> None:
    """Put visits of scopes on the timeline from here on, or no more."""
    global _tracing
    _tracing = visits
    _recorder.tree.time_visits(visits)


install(None)
