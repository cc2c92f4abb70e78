"""`os._exit` in a program that is recorded: the profiles are written first.

It passes by everything that Python runs at an end. Children of a fork leave by it, servers and test
runners do, and all of them call it as `os._exit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


@contextmanager
def writing_at_exit(finalize: Callable[[], None]) -> Iterator[None]:
    """Have `os._exit` call `finalize` before it ends the process, whatever comes of that."""
    leave = os._exit

    def _exit(status: int) -> NoReturn:
        with suppress(BaseException):
            finalize()
        leave(status)

    os._exit = _exit
    try:
        yield
    finally:
        # Somebody else who has replaced it since may call ours: that stays harmless.
        if os._exit is _exit:
            os._exit = leave
