"""Finalizing sessions in a process that is about to end, and saying what could not be written."""

from __future__ import annotations

import os
import select
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
