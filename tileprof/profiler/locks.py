"""Locks of the profiler, which forked children and handlers of signals can rely on.

A forked child has only the thread that called `fork`: a lock that another thread held would stay
taken in it for ever. And the handler of a signal runs between two instructions of the main thread,
which may hold any lock at that point: a handler that waits for another thread then waits for ever
if that thread waits for this lock. So every lock of the profiler is made here. In a forked child
those that other threads held are free again, and `held` tells a handler whether it may wait.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_made: dict[int, weakref.ReferenceType[Any]] = {}
"""Locks that were made; a dictionary, because no signal and no other thread interrupts what it
does."""


def new_lock() -> Any:
    """Return a reentrant lock, a `threading.RLock`."""
    lock: Any = threading.RLock()
    number = id(lock)
    _made[number] = weakref.ref(lock, lambda _: _made.pop(number, None))
    return lock


def held() -> bool:
    """Tell whether the calling thread holds a lock of the profiler."""
    return any(lock._is_owned() for lock in _all())


def _all() -> list[Any]:
    return [lock for each in list(_made.values()) if (lock := each()) is not None]


def _after_fork_in_child() -> None:
    for lock in _all():
        # One that this thread holds stays its own: it goes on in the code that releases it.
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
