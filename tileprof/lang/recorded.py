"""`tileprof.events`: call a kernel in the interpreter and get its accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileprof.errors import UsageError
from tileprof.runtime.events.access import listening
from tileprof.runtime.events.log import Blocks, EventLog
from tileprof.runtime.events.table import Events
from tileprof.runtime.selection import device

from .spans import here


def events(kernel: Callable[..., Any], *args: Any, blocks: Blocks = None, **kwargs: Any) -> Events:
    """Call `kernel` with the arguments in the interpreter and return the accesses of its blocks.

    `kernel` may also be a Python function that calls kernels.  `blocks` chooses the blocks of each
    launch: a number of blocks spread over the grid (64 by default), or their linear indices.
    UsageError where no kernel ran.  Errors of a kernel that goes wrong are raised.
    """
    log = EventLog(blocks)
    with device("interpreter"), listening(log):
        kernel(*args, **kwargs)
    if not log.kernels:
        raise UsageError(
            f"{kernel!r:.60} ran no kernel",
            location=here(),
            hint="Pass a kernel or a function that calls kernels; one under `debug=True` runs as"
            " plain Python and has no events.",
        )
    return log.table()
