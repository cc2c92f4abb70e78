"""Threads of Python's: which there are besides ours, and a function for each that begins.

PyTorch observes operations in all threads, or in those that ask for it.  The latter lets the
engine's threads, which begin their work by taking over what the caller's thread observes, pass
over the operations inside nodes of a backward pass; but a thread that is there already cannot be
made to ask.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tileprof.profiler.worker import Worker
from tileprof.runtime import hooks


def others() -> bool:
    """Tell whether threads of the program's are there besides the calling one."""
    mine = threading.current_thread()
    return any(
        each is not mine and not isinstance(each, Worker) and each.ident not in hooks.own_threads
        for each in threading.enumerate()
    )


class NewThreads:
    """Has a function called at the beginning of each thread that `threading` starts."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._former: Any = threading.getprofile()
        # A profile function is what Python sets in new threads; ours leaves at its first event.
        threading.setprofile(self._begun)

    def _begun(self, frame: FrameType, event: str, arg: object) -> None:
        sys.setprofile(self._former)
        self._tell()

    def stop(self) -> None:
        """Do so no more, unless somebody else has taken the place."""
        if threading.getprofile() == self._begun:
            threading.setprofile(self._former)
