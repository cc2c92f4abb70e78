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
    """Return the accesses that the blocks of a kernel call make, as a table.

    `kernel` is a tile kernel, or a Python function that calls some; it is called with the arguments
    in the interpreter. The table has one row per access, with op, buffer, indices and bytes;
    `events["bytes"]` is a column, `events.frame()` a pandas DataFrame.

    `blocks` selects the blocks of each launch: a number of blocks spread over the grid (default
    64), or a list of linear indices. UsageError if no kernel ran. Errors of the kernel are raised.
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
