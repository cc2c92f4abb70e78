"""The end of a program, before that of the interpreter: its threads are waited for.

The interpreter does the same when it ends; here what the threads do is still recorded.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress


def wait_for_threads() -> None:
    """Wait until no thread is left that holds up the interpreter's end."""
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
