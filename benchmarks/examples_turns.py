"""The turn of a process at a GPU that several processes prepare work for.

Processes compile at the same time, and one at a time uses the GPU, so that nobody's measurement
meets another's work.  The turn is a lock on a file, which the system releases when a process dies;
one that keeps the GPU for too long, since its kernel hangs, ends itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["HUNG", "Turn"]

HUNG = 17
"""Exit status of a process that kept the GPU for too long."""


class Turn:
    """`with turn:` waits for the GPU; `with turn.released():` gives it up inside of that."""

    def __init__(self, path: Path | None, leave: Any = None, limit_s: float = 0.0) -> None:
        self._path, self._leave = path, leave or (lambda: None)
        self._limit_s = limit_s
        """Longest time at the GPU without a break, in s; 0 for no limit."""
        self._alarm: threading.Timer | None = None
        self._file: Any = None
        self._depth = 0
        self.held_s = 0.0
        """How long this process has had the GPU, in s."""
        self.waited_s = 0.0
        """How long it has waited for it, in s."""
        self._since = 0.0

    def __enter__(self) -> Turn:
        self._depth += 1
        if self._depth == 1:
            self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._give()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Let others have the GPU."""
        depth, self._depth = self._depth, 0
        if depth:
            self._give()
        try:
            yield
        finally:
            if depth:
                self._take()
            self._depth = depth

    def _take(self) -> None:
        begin = time.monotonic()
        if self._path is not None:
            self._file = self._path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._since = time.monotonic()
        self.waited_s += self._since - begin
        if self._limit_s:
            self._alarm = threading.Timer(self._limit_s, self._end)
            self._alarm.daemon = True
            self._alarm.start()

    def _end(self) -> None:
        sys.stderr.write(f"at the GPU for more than {self._limit_s:.0f} s\n")
        sys.stderr.flush()
        os._exit(HUNG)

    def _give(self) -> None:
        self._leave()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._file is not None:
            self._file.close()
            self._file = None
        self.held_s += time.monotonic() - self._since
