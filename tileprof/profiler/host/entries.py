"""Open scopes as linked entries, and the state of each thread that opens them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, TypeAlias

from tileprof.profiler.tree.tree import Node

Entry: TypeAlias = list[Any]
"""An open scope. A list, because making an object with seven attributes takes 0.1 µs longer."""

ABOVE: Final = 0
"""The entry of the enclosing scope."""
BELOW: Final = 1
"""The entry that had the thread's clock before: the same, save among tasks."""
NODE: Final = 2
THREAD: Final = 3
STOP: Final = 4
"""The frame in which the scope was opened: known to be alive, so no path need look beyond it."""
SCOPE: Final = 5
"""The scope object; None once it is closed."""
BEGAN: Final = 6
"""Index of the time of opening, in ns if it goes on a timeline; else 0."""


MOST_THREADS = 1000
"""Threads that are told apart; later ones share a number, so that memory and file of a program
that always makes new ones do not grow."""
OTHER_THREADS = 0, "other threads"


class ThreadNames:
    """Threads that there were, by numbers from 1 on; those after `MOST_THREADS` have one."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, str], int] = {}
        self._latest: dict[int, str] = {}
        """Names of threads that entered scopes or launched, by identity; some have ended."""

    def enter(self) -> int:
        """Return the number of the calling thread."""
        ident, name = threading.get_ident(), threading.current_thread().name
        self._latest[ident] = name
        return self._number((ident, name))

    def keys(self, idents: Iterable[int]) -> dict[int, int]:
        """Return the numbers of threads that run now, or else ran last, by identity."""
        names = self.names()
        of = ((ident, names.get(ident, f"thread {ident:#x}")) for ident in idents)
        return {each[0]: self._number(each) for each in of}

    def _number(self, thread: tuple[int, str]) -> int:
        if thread not in self._keys and len(self._keys) >= MOST_THREADS:
            thread = OTHER_THREADS
        return self._keys.setdefault(thread, len(self._keys) + 1)

    def names(self) -> dict[int, str]:
        """Return the names of threads that run now, or else ran last, by identity."""
        running = {each.ident: each.name for each in threading.enumerate() if each.ident}
        return {**self._latest, **running}

    def all(self) -> dict[int, tuple[int, str]]:
        """Return the identity and the name of each thread by its number."""
        return {key: each for each, key in list(self._keys.items())}


class ThreadState:
    """Position of a thread's clock."""

    __slots__ = (
        "claimed", "credited", "current", "ident", "key", "last", "launching", "root", "seen",
        "where",
    )  # fmt: skip

    def __init__(
        self, ident: int, root: Node, now: int, base: FrameType | None, key: int = 0
    ) -> None:
        self.key = key
        """Number of the thread among all that there were (`ThreadNames`): `ident` is given to a
        later one again."""
        self.ident = ident
        """-1 once the recorder is closed: entries left over in contexts are then no one's."""
        self.root: Entry = [None, None, root, self, base, self, 0]
        self.current = self.root
        self.last = now
        self.launching = False
        self.seen = now
        """Time of the sampler's last sample."""
        self.claimed = 0
        """Part of the time that belonged to an operation, at the sampler's last sample."""
        self.credited = 0
        """Part of the time outside of scopes that samples were given."""
        self.where: Node | None = None
        """The node of the last sample outside of scopes."""

    def outside(self, now: int) -> int:
        """Return the time that passed outside of scopes and is not given to a sample yet, in ns."""
        passed: int = self.root[NODE].host.own_ns - self.credited
        return passed + now - self.last if self.current is self.root else passed


def enclosing(entry: Entry, frame: FrameType) -> Entry:
    """Return the innermost scope around a frame, from the innermost one that is open on.

    One that a generator has left open while its caller goes on is not around what the caller does.
    """
    while entry[NODE].suspends and not _is_called(frame, entry[STOP]):
        entry = entry[ABOVE]
    return entry


def _is_called(frame: FrameType | None, caller: FrameType | None) -> bool:
    while frame is not None:
        if frame is caller:
            return True
        frame = frame.f_back
    return False


NOBODY: Entry = ThreadState(-1, Node(0, None, "", "", None), 0, None).root
top: ContextVar[Entry] = ContextVar("tileprof_scope", default=NOBODY)
"""The innermost scope that is open in this context."""
