"""`tileprof.show`: run a kernel in the interpreter and draw what its blocks access."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import OutputError, UsageError
from tileprof.files import replace_bytes
from tileprof.once import cached_property
from tileprof.runtime.events.access import Access, listening
from tileprof.runtime.events.log import Blocks, EventLog
from tileprof.runtime.selection import device

from .launch_facts import LaunchFacts
from .machine import DEFAULT_TARGET, Machine, machine_of
from .moved import Traffic
from .page.assembled import page_of
from .traffic import traffic_of
from .watch import Watch

_HEIGHT = 760
"""Pixels of the page in a notebook."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """Accesses of the blocks of a run's launches; a notebook shows its page."""

    watch: Watch
    target: str
    """Architecture whose layouts and conflicts are drawn."""
    machines: list[Machine]
    """The kernels on the target, in the order in which they first ran."""

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


@dataclass(eq=False)
class _Run:
    """Listener that hands everything to a `Watch`, and counts the requests of each launch."""

    watch: Watch
    target: str
    controls: Controls | None
    machine_code: bool
    machines: list[Machine] = field(default_factory=list)
    _known: dict[tuple[int, tuple[int, ...], frozenset[int]], Machine] = field(default_factory=dict)
    """Kernels by number, values of symbols and tensors that are not aligned."""
    _traffic: list[Traffic] = field(default_factory=list)

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Compile a kernel that is new, and count its requests with these arguments."""
        self.watch.begin(kernel, values, symbols)
        at = next(at for at, each in enumerate(self.watch.kernels) if each is kernel)
        facts = LaunchFacts.of(kernel, values, symbols)
        known = at, tuple(symbols), facts.unaligned
        if known not in self._known:
            self._known[known] = machine_of(kernel, self.target, self.controls, facts)
        machine = self._known[known]
        if at == len(self.machines):
            self.machines.append(machine)
        self._traffic = traffic_of(machine, values, symbols, self.controls, self.machine_code)

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch; those of the counted run come in the same order."""
        self.watch.launch(op, grid)
        if self._traffic:
            self.watch.launches[-1].traffic = self._traffic.pop(0)

    def note(self, access: Access) -> None:
        """Add an access."""
        self.watch.note(access)


def _controls(kernel: Callable[..., Any]) -> Controls | None:
    """Return the lowering controls of a kernel; None for a function that calls kernels."""
    held = getattr(kernel, "controls", None) or getattr(
        getattr(kernel, "options", None), "controls", None
    )
    return held if isinstance(held, Controls) else None


def show(
    kernel: Callable[..., Any],
    *args: Any,
    blocks: Blocks = None,
    target: str = DEFAULT_TARGET,
    machine_code: bool = True,
    **kwargs: Any,
) -> Drawing:
    """Return a drawing of what the blocks of a kernel call read and write.

    `kernel` is a tile kernel, or a Python function that calls some; it is called with the arguments
    in the interpreter. `drawing.save("kernel.html")` writes the page; a notebook shows it.

    `blocks` selects the blocks to show step by step: a number of blocks spread over the grid
    (default 6), or a list of linear indices. `target` is the GPU architecture whose layouts and
    bank conflicts are shown; no GPU is needed. With `machine_code`, short launches without TMA and
    matrix instructions also run as machine code on the processor, and what a GPU asks of memory is
    counted there; otherwise it follows from the layouts. UsageError if no kernel ran. Errors of
    the kernel are raised.
    """
    find_target(target)
    # The log checks `blocks` as `tileprof.events` does.
    watch = Watch(EventLog(blocks).blocks)
    run = _Run(watch, target, _controls(kernel), machine_code)
    with device("interpreter"), listening(run):
        kernel(*args, **kwargs)
    if not watch.launches:
        raise UsageError(
            f"{kernel!r:.60} launched no block",
            hint="Pass a kernel or a function that calls kernels; one under `debug=True` runs as"
            " plain Python and has no accesses.",
        )
    return Drawing(watch, target, run.machines)
