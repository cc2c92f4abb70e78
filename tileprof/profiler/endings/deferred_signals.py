"""Holding back Python's signal handlers while something is finished."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tileprof.profiler.endings.termination import ENDING_SIGNALS, Termination


@contextmanager
def deferred() -> Iterator[None]:
    """Keep Python's handlers of signals that end programs waiting while a block runs.

    They run at its end: what they raise, or what they call, must not cut off what the block does. A
    second Ctrl-C does, for a user who does not want to wait. Handlers of ours wait for nothing and
    raise nothing, so they stay. In other threads than the main one no handler ever runs.
    """
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in noted:
            raise KeyboardInterrupt
        noted.append(number)

    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    for number in (signal.SIGINT, *ENDING_SIGNALS):
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(getattr(handler, "__self__", None), Termination):
            handlers[number] = handler
    try:
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        for number in dict.fromkeys(noted):
            handlers[number](number, sys._getframe())
