"""The context that gives the operations of the language their meaning.

`T.copy(...)` normalises its arguments and calls `current().copy(...)`.  While a kernel is compiled
the context is a `Tracer`, which writes the program; running a kernel as plain Python puts its
subclass `Live` in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tileprof.errors import UsageError

from .spans import here

if TYPE_CHECKING:
    from .trace import Tracer

Hints = tuple[tuple[str, bool | int | float | str], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Object that `for … in` iterates over: `T.serial`, `T.Pipelined`, `T.Parallel`,
    `T.Persistent`, …

    kind `parallel`: `stop` is the tuple of extents.  kind `persistent`: the block `start` of `step`
    blocks takes its share of the tiles of the domain `stop`, in groups of `group` columns.
    """

    kind: str
    start: Any
    stop: Any
    step: Any = 1
    num_stages: int = 0
    group: int = 1
    hints: Hints = ()
    nests: bool = False
    """Whether a `parallel` loop may stand inside of another one."""

    def __iter__(self) -> Iterator[Any]:
        return current().iterate(self)


class _Active(threading.local):
    context: Tracer | None = None


_active = _Active()


def active() -> Tracer | None:
    """Return the context in which a kernel is being traced or run by this thread, if any."""
    return _active.context


def current() -> Tracer:
    """Return the context in which a kernel is being traced or run; UsageError outside of one."""
    found = _active.context
    if found is None:
        raise UsageError(
            "this operation of tileprof.lang works inside a kernel only",
            location=here(),
            hint="Call it in a function under `@tileprof.jit`, `@T.prim_func` or `@T.macro`.",
        )
    return found


@contextmanager
def activate(context: Tracer) -> Iterator[None]:
    """Make `context` the current one for a while."""
    before = _active.context
    _active.context = context
    try:
        yield
    finally:
        _active.context = before
