"""Conversion of Python frames to nodes: which frames show, and where a path hangs.

A path starts at the innermost open scope. Usually that scope's frame is among the callers, and what
was called since then hangs below the scope. A scope can also be open in a frame that is suspended:
a generator (every `@contextmanager`) between two steps, or a task that started this one. Then the
callers and the path to the scope share their beginning, and what they do not share hangs below the
scope.

What a library does for us (an import, a subprocess) is no call of the program's: the frames of
libraries that we called do not show, and their time is the caller's of ours.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import NamedTuple

from tileprof.errors import Location
from tileprof.profile import FOLDED_NAME
from tileprof.profile.node_names import CALL_SUFFIX
from tileprof.profiler.tree.module_names import Call, called_as, calls_modules
from tileprof.profiler.tree.path_cache import Link, follow, line_at, line_of
from tileprof.profiler.tree.sources import of_user
from tileprof.profiler.tree.tree import Node, Tree

MAX_LINKS = 100_000
"""Links keep code objects alive; a program that makes code without end starts learning anew."""

_PROFILER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(_PROFILER)), "")
_CALLING = tuple(f"{_PROFILER}{name}.py" for name in ("host/decorate", "session/program"))
"""Files of ours whose calls are the program's own."""
_PLUMBING = {
    # Identities, because a code object takes long to hash.
    id(getattr(threading.Thread, name).__code__)
    for name in ("_bootstrap", "_bootstrap_inner", "run")
}

Finish = Callable[[Node, Location | None], Node]
"""Makes the node at the end of a path, from the node above and the place of the innermost frame."""


def hidden(code: CodeType) -> bool:
    """Tell whether frames of this code never show: ours, the interpreter's, plumbing."""
    return ours(code) or code.co_filename.startswith("<frozen ") or id(code) in _PLUMBING


def hide(code: CodeType) -> None:
    """Show frames of this code, which lives as long as the process, no more."""
    _PLUMBING.add(id(code))


def shows(code: CodeType, for_us: bool) -> tuple[bool, bool]:
    """Tell whether a frame shows, and whether what it calls is called for us.

    `for_us` is what the frame around it gave.
    """
    if ours(code):
        return False, not code.co_filename.startswith(_CALLING)
    if hidden(code):
        return False, for_us
    for_us = for_us and not of_user(code.co_filename)
    return not for_us, for_us


def ours(code: CodeType) -> bool:
    """Tell whether code belongs to this package."""
    return code.co_filename.startswith(_PACKAGE)


def runs_kernels(code: CodeType) -> bool:
    """Tell whether code is ours and not the profiler's, whose wrappers are around anything."""
    return ours(code) and not code.co_filename.startswith(_PROFILER)


class _Stand(NamedTuple):
    """A frame, and the instruction at which it stood when it was looked at."""

    frame: FrameType
    code: CodeType
    lasti: int


class Paths:
    """Finds and learns the nodes of call paths in one tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._links = 0
        self.base: FrameType | None = None
        """The frame that runs the user's program; it and its callers do not belong to it."""

    def find(
        self,
        anchor: Link[Node],
        frame: FrameType,
        scope: Node,
        stop: FrameType | None,
        finish: Finish,
    ) -> tuple[Node, bool]:
        """Return the node of the path from `scope` to `frame`, and whether the chain was kept.

        `stop` is the frame in which `scope` was opened, None for a thread's root.
        """
        node = follow(anchor, frame, stop)
        return (node, True) if node is not None else self._learn(anchor, frame, scope, stop, finish)

    def find_sampled(self, frame: FrameType, scope: Node, stop: FrameType | None) -> Node:
        """Return the node of the path from `scope` to a frame that is interrupted anywhere."""
        if frame is stop:
            return scope
        line = line_of(frame)
        anchor = scope.cache.sampled(frame.f_code, line)
        node = follow(anchor, frame.f_back, stop)
        if node is None:
            node, _ = self._learn(anchor, frame, scope, stop, _itself, line)
        return node

    def _learn(
        self,
        anchor: Link[Node],
        frame: FrameType,
        scope: Node,
        stop: FrameType | None,
        finish: Finish,
        line: int = 0,
    ) -> tuple[Node, bool]:
        """Make the node of a path; `line` is that of the first frame, where the anchor stands for
        it.

        Where each frame is, is read once: another thread may go on meanwhile, and what is learned
        of its frames must belong together.
        """
        chain: list[_Stand] = []
        outer: FrameType | None = frame
        while outer is not stop and outer is not None:
            chain.append(_Stand(outer, outer.f_code, outer.f_lasti))
            outer = outer.f_back
        places = self._places(chain, line)
        met = outer is stop
        above = scope
        for place in reversed(places if met else _beyond(places, scope)):
            above = self._tree.frame(above, place)
        node = finish(above, places[0] if places else place_of(frame))
        kept = FOLDED_NAME not in (node.name, above.name)
        if kept:
            self._keep(anchor, chain[1:] if line else chain, node, met)
        return node, kept

    def _places(self, chain: list[_Stand], line: int) -> list[Location]:
        """Return the visible frames of a chain, innermost first, which is at `line` where given."""
        end = next((at for at, each in enumerate(chain) if each.frame is self.base), len(chain))
        places = []
        for_us = False
        for at in reversed(range(end)):
            code, lasti = chain[at].code, chain[at].lasti
            visible, for_us = shows(code, for_us)
            if visible:
                callers = ((each.code, each.lasti) for each in chain[at + 1 : end])
                places.append(
                    _located(code, line if line and not at else line_at(code, lasti), callers)
                )
        return places[::-1]

    def _keep(self, anchor: Link[Node], chain: list[_Stand], node: Node, met: bool) -> None:
        if self._links > MAX_LINKS:
            self._links = 0
            self._tree.forget_paths()
        self._links += len(chain) + 1
        link = anchor
        for each in chain:
            link = link.further(each.code, each.lasti)
        if met:
            link.at_stop = node
        else:
            link.at_top = node


def _itself(node: Node, place: Location | None) -> Node:
    return node


def place_of(frame: FrameType) -> Location | None:
    """Return where a frame stands; None for one that does not show."""
    return None if hidden(frame.f_code) else _located(frame.f_code, line_of(frame))


def _located(code: CodeType, line: int, callers: Iterable[Call] = ()) -> Location:
    return Location(code.co_filename, line, function=function_of(code, callers))


def function_of(code: CodeType, callers: Iterable[Call]) -> str:
    """Return a function's name; of PyTorch's `Module.__call__` with that of the module."""
    name = called_as(callers) if calls_modules(code) else None
    return code.co_qualname if name is None else f"{name}{CALL_SUFFIX}"


def _beyond(places: list[Location], scope: Node) -> list[Location]:
    """Return the callers (innermost first) that are not on the path down to `scope`."""
    path = path_of(scope)
    shared = 0
    for place in reversed(places):
        is_shared, goes_on = shares(path, shared, place)
        shared += is_shared
        if not goes_on:
            break
    return places[: len(places) - shared]


def path_of(scope: Node) -> list[Location]:
    """Return the frames on the path down to a scope, outermost first."""
    path: list[Location] = []
    node: Node | None = scope
    while node is not None:
        if node.kind == "frame" and node.location is not None:
            path.append(node.location)
        node = node.parent
    return path[::-1]


def shares(path: list[Location], shared: int, place: Location) -> tuple[bool, bool]:
    """Tell whether a caller's place is on a path, after `shared` that are, and may be the last.

    The same function, gone on to another line, is the last: what it calls now is not shared.
    """
    if shared >= len(path):
        return False, False
    its = path[shared]
    same = (place.file, place.function) == (its.file, its.function)
    return same, same and place.line == its.line
