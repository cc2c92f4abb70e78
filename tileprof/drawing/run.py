"""`tileprof.show`: run a kernel in the interpreter and draw what its blocks access."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof.compiler.cuda.target import find_target
from tileprof.errors import OutputError, UsageError
from tileprof.files import replace_bytes
from tileprof.once import cached_property
from tileprof.runtime.events.access import listening
from tileprof.runtime.events.log import Blocks, EventLog
from tileprof.runtime.selection import device

from .machine import DEFAULT_TARGET, Machine, machine_of
from .page.assembled import page_of
from .watch import Watch

_HEIGHT = 760
"""Pixels of the page in a notebook."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """What the blocks of a run's launches access; a notebook shows its page."""

    watch: Watch
    target: str
    """Architecture whose layouts and conflicts are drawn."""

    @cached_property
    def machines(self) -> list[Machine]:
        """The kernels on the target, in the order in which they first ran."""
        return [machine_of(kernel, self.target) for kernel in self.watch.kernels]

    @cached_property
    def page(self) -> str:
        """Text of an HTML page that needs nothing but a browser."""
        return page_of(self.watch, self.machines)

    def save(self, path: str | Path) -> None:
        """Write the page.  OutputError where the file cannot be written."""
        try:
            replace_bytes(path, self.page.encode())
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}", hint="Choose another place."
            ) from None

    @property
    def summary(self) -> str:
        """Number of launches and blocks, in words."""
        ran = len(self.watch.launches)
        blocks = sum(each.blocks for each in self.watch.launches)
        launches = "1 launch" if ran == 1 else f"{ran:,} launches"
        return f"{launches}, {blocks:,} block{'s' if blocks != 1 else ''}"

    def __repr__(self) -> str:
        return f"<drawing of {self.summary}; `.save('x.html')` writes the page>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{_HEIGHT}px;border:0"'
            f' srcdoc="{html.escape(self.page)}"></iframe>'
        )


def show(
    kernel: Callable[..., Any],
    *args: Any,
    blocks: Blocks = None,
    target: str = DEFAULT_TARGET,
    **kwargs: Any,
) -> Drawing:
    """Call `kernel` with the arguments in the interpreter and draw what its blocks access.

    `kernel` may also be a Python function that calls kernels.  `blocks` chooses the blocks whose
    accesses are shown one by one: a number of blocks spread over the grid (6 by default), or their
    linear indices.  `target` is the GPU architecture whose layouts and bank conflicts are drawn; no
    GPU is needed.  UsageError where no kernel ran.  Errors of a kernel that goes wrong are raised.
    """
    find_target(target)
    # The log checks `blocks` as `tileprof.events` does.
    watch = Watch(EventLog(blocks).blocks)
    with device("interpreter"), listening(watch):
        kernel(*args, **kwargs)
    if not watch.launches:
        raise UsageError(
            f"{kernel!r:.60} launched no block",
            hint="Pass a kernel or a function that calls kernels; one under `debug=True` runs as"
            " plain Python and has no accesses.",
        )
    return Drawing(watch, target)
