"""SIGTERM in the middle of a flush, for programs that a real CUPTI or a played one records."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tileprof.native import _recorder as recorder


def end_in_flush(ready: Callable[[], bool], say: Callable[[], None], forced: bool) -> None:
    """Send SIGTERM to this process from within a flush of CUPTI's records, once it is `ready`.

    `forced` picks the flush: the one of the end of a session, or one of those that the helping
    thread makes now and then. `say()` is called right before the signal.
    """
    flush = recorder.gpu_flush
    done: list[bool] = []

    def flush_and_be_ended(force: bool = False, timeout_s: float = 10.0) -> tuple[int, str]:
        if force is forced and not done and ready():
            done.append(True)
            say()
            os.kill(os.getpid(), signal.SIGTERM)
        return flush(force, timeout_s)

    recorder.gpu_flush = flush_and_be_ended
