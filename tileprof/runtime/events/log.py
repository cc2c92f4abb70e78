"""A log of accesses: those of a window of blocks, kept as they come and unfolded later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import UsageError

from .access import Access, Ints
from .table import Events, Kept, Launch, Site, unfold

MOST_BLOCKS = 64
"""Blocks of a launch that are kept unless the caller chooses: enough to see a pattern, few enough
for grids of any size."""
MOST_ROWS = 20_000_000
"""Rows that a log keeps, about 3 GB as a table.  Later ones are counted and dropped."""

Blocks = int | Sequence[int] | None


@dataclass
class EventLog:
    """Listener that keeps the accesses of some blocks.

    `blocks` is a number of blocks, spread evenly over the grid with the first and the last among
    them, or the linear indices of blocks; None stands for `MOST_BLOCKS`.
    """

    blocks: Blocks = None
    most_rows: int = MOST_ROWS
    kernels: int = 0
    """Kernels that ran so far."""
    launches: list[Launch] = field(default_factory=list)
    _kept: list[Kept] = field(default_factory=list)
    _sites: dict[tuple[object, ...], int] = field(default_factory=dict)
    _names: list[Site] = field(default_factory=list)
    _kernel: str = ""
    _window: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _whole: bool = True
    _first: int = 0
    _step: int = 0
    _rows: int = 0
    _dropped: int = 0
    _batch: tuple[Ints | None, Ints | None] = (None, None)
    """Blocks of a batch, one array that its accesses share, and those in the window."""

    def __post_init__(self) -> None:
        asked = [] if self.blocks is None else np.ravel(self.blocks).tolist()
        least = 1 if isinstance(self.blocks, int) else 0
        if any(type(n) is not int or n < least for n in asked):
            raise UsageError(
                f"`blocks={self.blocks!r}` is not a number of blocks nor a list of block indices",
                hint="For example blocks=8, or blocks=[0, 17].",
            )

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Start a kernel; its launches are numbered after those before."""
        self.kernels += 1
        self._kernel, self._first = kernel.name, len(self.launches)

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch: choose its window."""
        total = math.prod(max(n, 0) for n in grid)
        self._window = window(total, self.blocks)
        self._whole = len(self._window) == total
        self.launches.append(Launch(self._kernel, grid, tuple(self._window.tolist())))

    def note(self, access: Access) -> None:
        """Keep an access, where one of its blocks is in the window."""
        self._step += 1
        chosen = None
        count = len(access.blocks)
        if access.launch >= 0 and not self._whole:
            batch, chosen = self._batch
            if batch is not access.blocks or chosen is None:
                chosen = np.flatnonzero(np.isin(access.blocks, self._window))
                self._batch = access.blocks, chosen
            count = len(chosen)
            if not count:
                return
        rows = count * math.prod(access.lanes[1:])
        if self._rows + rows > self.most_rows:
            self._dropped += rows
            return
        self._rows += rows
        launch = self._first + access.launch if access.launch >= 0 else -1
        if chosen is not None:
            # The numbers of a whole batch would take much more memory than those of the window.
            access = access.of_blocks(chosen)
        self._kept.append(Kept(launch, self._step, self._site(access), access))

    def _site(self, access: Access) -> int:
        held = access.buffer
        key = (access.kernel.name, access.op, held.name, access.kind)
        found = self._sites.get(key)
        if found is None:
            found = self._sites[key] = len(self._names)
            place, type_ = access.op.span, held.type
            self._names.append(
                Site(
                    access.kernel.name, access.op.mnemonic, place.file if place else "",
                    place.line if place else 0, held.name, type_.space, type_.dtype.name,
                    access.kind, type_.dtype.bytes,
                )
            )  # fmt: skip
        return found

    def table(self) -> Events:
        """Return everything that was kept as a table."""
        return unfold(self._kept, self._names, self.launches, self._dropped)


def window(total: int, blocks: Blocks) -> Ints:
    """Return the linear indices of the blocks to keep, in order."""
    if blocks is None:
        blocks = MOST_BLOCKS
    if isinstance(blocks, int):
        if total <= blocks:
            return np.arange(total)
        if blocks == 1:
            return np.zeros(1, np.int64)
        return np.arange(blocks) * (total - 1) // (blocks - 1)
    held = np.unique(np.asarray(blocks, np.int64))
    return held[held < total]
