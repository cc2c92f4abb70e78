"""What a process works on for long, for whoever shows it: compiles, measurements, exports.

In: tasks, as they begin and end.  Out: those under way.  Nothing is printed here: a listener hears
of changes, and a forked child has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Task:
    """One piece of work; `total` is how many steps it has, 0 where nobody knows."""

    what: str
    total: int = 0
    done: int = 0

    def tell(self, what: str) -> None:
        """Say what it works on now."""
        self.what = what


tasks: list[Task] = []
"""What is under way, in the order of its beginning, of all threads."""
_listener: Callable[[], None] | None = None


@contextmanager
def working(what: str, total: int = 0) -> Iterator[Task]:
    """Be at a task until the end of the block."""
    task = Task(what, total)
    tasks.append(task)
    _tell()
    try:
        yield task
    finally:
        if task in tasks:
            tasks.remove(task)
        _tell()


@contextmanager
def listen(listener: Callable[[], None]) -> Iterator[None]:
    """Have a listener called after each begin and end of a task, in the thread of the task."""
    global _listener
    _listener = listener
    try:
        yield
    finally:
        _listener = None


def _tell() -> None:
    if _listener is not None:
        _listener()


def _forget() -> None:
    global _listener
    _listener = None
    tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
