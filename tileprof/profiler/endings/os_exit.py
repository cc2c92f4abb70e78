"""`os._exit` in a program that is recorded: the profiles are written first.

It passes by everything that Python runs at an end. Children of a fork leave by it, servers and test
runners do, and all of them call it as `os._exit`.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from tileprof.profiler.endings import termination


@contextmanager
def writing_at_exit(
    finalize: Callable[[], None], late: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Have `os._exit` call `finalize` before it ends the process, whatever comes of that.

    It may be called anywhere, in code that holds a lock which `finalize` waits for, too. So the
    process ends without it after some seconds; `late` is called then, and says so.
    """
    original = os._exit

    def _exit(status: int) -> NoReturn:
        over = threading.Lock()
        over.acquire()

        def watch() -> None:
            if not over.acquire(timeout=termination.SAVE_S):
                with suppress(BaseException):
                    late()
                original(status)

        with suppress(RuntimeError):
            _thread.start_new_thread(watch, ())
        with suppress(BaseException):
            finalize()
        with suppress(RuntimeError):
            over.release()
        original(status)

    os._exit = _exit
    try:
        yield
    finally:
        # Somebody else who has replaced it since may call ours: that stays harmless.
        if os._exit is _exit:
            os._exit = original
