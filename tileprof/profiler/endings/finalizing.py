"""Finalizing sessions in a process that is about to end, and saying what could not be written."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tileprof.errors import TileprofError


class Finalizable(Protocol):
    """Session that can be ended, and has a file unless `path` is None."""

    path: Path | None

    def finalize(self) -> object:
        """End the session and write its file; `OutputError` where it cannot be written."""


def finalize_each(sessions: Sequence[Finalizable]) -> None:
    """Finalize sessions in a process that ends; say which of them could not be written, and why."""
    for session in list(sessions):
        try:
            session.finalize()
        except TileprofError as error:
            say(str(error))
        except Exception as error:
            say(f"{session.path} was not written: {type(error).__name__}: {error}")


def say_unwritten(sessions: Sequence[Finalizable], seconds: float) -> None:
    """Say that there was no time to write the profiles of these sessions."""
    names = ", ".join(str(session.path) for session in sessions if session.path is not None)
    say(f"the process was ended before {names or 'its profile'} could be written: that took longer"
        f" than {seconds:g} s; what was written before, if anything, is still there")  # fmt: skip


def say(sentence: str) -> None:
    """Write a sentence to standard error if that can be done at once: nothing here may wait."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"tileprof: {sentence}\n".encode(errors="replace")[: select.PIPE_BUF])


def wait_for_threads() -> None:
    """Wait until no thread is left that holds up the interpreter's end, while that is recorded."""
    # Pools end their threads when they are told of the end. They will be told again, which they
    # do not mind.
    for tell in reversed(getattr(threading, "_threading_atexits", [])):
        with suppress(Exception):
            tell()
    # Sleeping, because some of them may be replaced by others meanwhile.
    while any(_holds_exit(thread) for thread in threading.enumerate()):
        time.sleep(0.005)
    _reopen_pools()


def _reopen_pools() -> None:
    # They believe that the interpreter ends; but what runs after the program may want some.
    for name, flag in (("thread", "_shutdown"), ("process", "_global_shutdown")):
        module = sys.modules.get(f"concurrent.futures.{name}")
        if getattr(module, flag, False):
            setattr(module, flag, False)


def _holds_exit(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and not thread.daemon
