"""`os._exit` and `os.exec…` in a program that is recorded: the profiles are written first.

It passes by everything that Python runs at an end. Children of a fork leave by it, servers and test
runners do, and all of them call it as `os._exit`. A program that becomes another one, such as a
server that starts itself anew, ends for the recording too: `os.execv` and `os.execve` are what all
functions of that family call.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tileprof.profiler.endings import termination


@contextmanager
def writing_at_exit(
    finalize: Callable[[str], None], late: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Have `os._exit` and `os.exec…` call `finalize` before they end the program, whatever comes of
    that.

    It is given a sentence's begin that says how the program ends. They may be called anywhere, in
    code that holds a lock which `finalize` waits for, too. So the process ends without it after
    some seconds; `late` is called then, and says so.
    """
    originals = {name: getattr(os, name) for name in ("_exit", "execv", "execve")}

    def write_first(ending: str, leave: Callable[[], object]) -> None:
        over = threading.Lock()
        over.acquire()

        def watch() -> None:
            if not over.acquire(timeout=termination.SAVE_S):
                with suppress(BaseException):
                    late()
                leave()

        with suppress(RuntimeError):
            _thread.start_new_thread(watch, ())
        with suppress(BaseException):
            finalize(ending)
        with suppress(RuntimeError):
            over.release()
        leave()

    def _exit(status: int) -> None:
        write_first("the program ended by os._exit", lambda: originals["_exit"](status))

    def execv(path: Any, argv: Any) -> None:
        become(path, lambda: originals["execv"](path, argv))

    def execve(path: Any, argv: Any, env: Any) -> None:
        become(path, lambda: originals["execve"](path, argv, env))

    def become(path: Any, leave: Callable[[], object]) -> None:
        # The search along PATH tries what is not there: the program goes on after that.
        if not isinstance(path, int) and not os.access(path, os.X_OK):
            leave()
            return
        shown = "another one" if isinstance(path, int) else os.fsdecode(path)
        write_first(f"the program became {shown}, which is not recorded", leave)

    ours: dict[str, Any] = {"_exit": _exit, "execv": execv, "execve": execve}
    for name, function in ours.items():
        setattr(os, name, function)
    try:
        yield
    finally:
        # Somebody else who has replaced one since may call ours: that stays harmless.
        for name, function in ours.items():
            if getattr(os, name) is function:
                setattr(os, name, originals[name])
