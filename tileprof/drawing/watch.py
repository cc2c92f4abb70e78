"""Listener that adds up what the blocks of each launch access, while the interpreter runs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.runtime.events.access import Access
from tileprof.runtime.events.log import Blocks, window
from tileprof.runtime.events.table import Site

from .boxes import Cover, boxes_of, taking_part
from .moved import Traffic

Ints = NDArray[np.int64]

SHOWN_BLOCKS = 6
"""Blocks of a launch whose accesses are kept in order unless the caller chooses: the first, the
last and some between, so that a page of a long loop stays below 2 MB."""
MOST_STEPS = 32_000
"""Accesses that are kept in order for one launch, over its blocks; about 0.7 MB of a page."""


@dataclass(frozen=True, slots=True)
class Step:
    """One access of one buffer by one block."""

    site: int
    """Position in `LaunchRun.sites`."""
    trip: int
    """Iteration of the innermost pipelined loop around; -1 outside of any."""
    elements: int
    """Elements inside the buffer."""
    guarded: int
    """Elements outside of a global tensor."""
    points: int
    """Points of the `T.Parallel`s around, 1 outside of any."""
    active: int
    """Those that take part."""
    low: tuple[int, ...]
    """Least index in each dimension that an active point asks for; it may lie outside."""
    high: tuple[int, ...]
    """Largest index in each dimension, exclusive."""


@dataclass(eq=False)
class SiteRun:
    """Accesses of the blocks of one launch at one place of the program, summed."""

    site: Site
    op: ir.OpBase
    shape: tuple[int, ...]
    """Extents of the buffer."""
    stages: int
    """Stages of the pipelined loop around; 0 outside of any."""
    accesses: int = 0
    """Number of accesses, one for each block and time."""
    elements: int = 0
    guarded: int = 0
    points: int = 0
    """Points of the blocks that have one that takes part."""
    idle: int = 0
    """Those of them that do not take part."""
    cover: Cover | None = None
    """Elements of a global tensor, by block."""

    @property
    def bytes(self) -> int:
        """Bytes of all accesses."""
        return self.elements * self.site.bytes

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return self.site.access != "write"

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return self.site.access != "read"


@dataclass(eq=False)
class LaunchRun:
    """One launch."""

    kernel: int
    """Position in `Watch.kernels`."""
    op: ir.Launch
    grid: tuple[int, ...]
    shown: tuple[int, ...]
    """Blocks whose accesses are kept in order, by linear index."""
    sites: list[SiteRun] = field(default_factory=list)
    steps: dict[int, list[Step]] = field(default_factory=dict)
    """Accesses in order, by block."""
    dropped: int = 0
    """Accesses of these blocks that were left out because there were too many."""
    traffic: Traffic | None = None
    """All requests of its warps on the target; None where they are not counted."""
    read: Ints = field(init=False)
    """Bytes of global tensors that each block reads; atomics count here and in `written`."""
    written: Ints = field(init=False)
    guarded: Ints = field(init=False)
    """Elements outside of global tensors that each block asks for."""
    idle: Ints = field(init=False)
    """Points of each block that do not take part in an access, over all accesses."""

    is_shown: NDArray[np.bool_] = field(init=False)
    """Whether each block is one of `shown`."""

    def __post_init__(self) -> None:
        self.is_shown = np.zeros(self.blocks, np.bool_)
        self.is_shown[list(self.shown)] = True
        self.read, self.written, self.guarded, self.idle = (
            np.zeros(self.blocks, np.int64) for _ in range(4)
        )

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return math.prod(max(extent, 0) for extent in self.grid)

    def tensors(self) -> list[list[SiteRun]]:
        """Return the accesses of each global tensor, in the order of their first access.  Views of
        a tensor under another shape are tensors of their own."""
        found: dict[tuple[str, tuple[int, ...]], list[SiteRun]] = {}
        for each in self.sites:
            if each.cover is not None:
                found.setdefault((each.site.buffer, each.shape), []).append(each)
        return list(found.values())


@dataclass(eq=False)
class Watch:
    """Listener of the interpreter; `blocks` chooses whose accesses are kept in order, as for
    `tileprof.events`."""

    blocks: Blocks = None
    kernels: list[ir.Kernel] = field(default_factory=list)
    """Different kernels that ran."""
    launches: list[LaunchRun] = field(default_factory=list)
    _places: dict[tuple[object, ...], int] = field(default_factory=dict)
    """Position of a site in its launch."""
    _room: int = 0
    _kernel: int = 0

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Note that a kernel starts; one that ran before is the same."""
        at = next((at for at, each in enumerate(self.kernels) if each is kernel), None)
        if at is None:
            at = len(self.kernels)
            self.kernels.append(kernel)
        self._kernel = at

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch: choose its blocks."""
        total = math.prod(max(extent, 0) for extent in grid)
        shown = window(total, SHOWN_BLOCKS if self.blocks is None else self.blocks)
        made = LaunchRun(self._kernel, op, grid, tuple(shown.tolist()))
        made.steps = {block: [] for block in made.shown}
        self.launches.append(made)
        self._places.clear()
        self._room = MOST_STEPS

    def note(self, access: Access) -> None:
        """Add an access; those outside of any launch are of no block."""
        if access.launch < 0:
            return
        access = taking_part(access)
        if not len(access.blocks):
            return
        launch = self.launches[-1]
        place = self._place(launch, access)
        site = launch.sites[place]
        blocks, points = access.blocks, math.prod(access.lanes[1:])
        wanted = math.prod(access.sizes)
        active = _sums(1, access)
        elements = _sums(access.elements(), access)
        idle = np.where(active > 0, points - active, 0)
        guarded = active * wanted - elements
        site.accesses += int(np.count_nonzero(active))
        site.elements += int(elements.sum())
        site.guarded += int(guarded.sum())
        site.points += points * int(np.count_nonzero(active))
        site.idle += int(idle.sum())
        launch.idle[blocks] += idle
        if site.cover is not None:
            launch.guarded[blocks] += guarded
            if site.reads:
                launch.read[blocks] += elements * site.site.bytes
            if site.writes:
                launch.written[blocks] += elements * site.site.bytes
            site.cover.add(boxes_of(access))
        self._keep(launch, place, access, active, elements)

    def _place(self, launch: LaunchRun, access: Access) -> int:
        held, op = access.buffer, access.op
        key = (op, held.name, access.kind)
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(launch.sites)
            span, type_ = op.span, held.type
            site = Site(
                access.kernel.name, op.mnemonic, span.file if span else "",
                span.line if span else 0, held.name, type_.space, type_.dtype.name, access.kind,
                type_.dtype.bytes,
            )  # fmt: skip
            made = SiteRun(site, op, held.shape, max(access.stages, 0) if access.trip >= 0 else 0)
            if type_.space == "global":
                made.cover = Cover(launch.blocks, len(held.shape))
            launch.sites.append(made)
        return found

    def _keep(
        self, launch: LaunchRun, place: int, access: Access, active: Ints, elements: Ints
    ) -> None:
        """Keep an access in the order of the blocks that are shown."""
        chosen = np.flatnonzero(launch.is_shown[access.blocks])
        if not len(chosen):
            return
        part, points = access.of_blocks(chosen), math.prod(access.lanes[1:])
        wanted = math.prod(access.sizes)
        for row, at in enumerate(chosen.tolist()):
            if not active[at]:
                continue
            if self._room <= 0:
                launch.dropped += 1
                continue
            self._room -= 1
            low, high = _reach(part, row)
            step = Step(
                place, access.trip, int(elements[at]), int(active[at]) * wanted - int(elements[at]),
                points, int(active[at]), low, high,
            )  # fmt: skip
            launch.steps[int(access.blocks[at])].append(step)


def _sums(values: Any, access: Access) -> Ints:
    """Return the sum over each block's active points of values that broadcast to the lanes."""
    count, points = access.lanes[0], math.prod(access.lanes[1:])
    held = np.asarray(values, np.int64)
    if access.mask is not True:
        held = held * np.asarray(access.mask, np.int64)
    if held.ndim == 0:
        return np.full(count, int(held) * points)
    own = held.reshape(held.shape[0], -1)
    summed = own.sum(axis=1) * (points // own.shape[1])
    return np.broadcast_to(summed, count)


def _reach(access: Access, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the least and the largest index in each dimension of a block's active points."""

    def own(value: Any) -> Any:
        held = np.asarray(value)
        return held if held.ndim == 0 else held[row if held.shape[0] > 1 else 0]

    mask = None if access.mask is True else own(access.mask)
    low: list[int] = []
    high: list[int] = []
    for start, size in zip(access.starts, access.sizes):
        begins = own(start)
        if mask is not None and begins.ndim:
            begins = np.broadcast_arrays(begins, mask)[0][np.broadcast_arrays(begins, mask)[1]]
        low.append(int(begins.min()))
        high.append(int(begins.max()) + size)
    return tuple(low), tuple(high)


def ring_slots(launch: LaunchRun) -> dict[str, int]:
    """Return the shared buffers that a pipelined loop fills, with the slots that `num_stages` asks
    for; a buffer that is filled elsewhere has one place."""
    held: dict[str, int] = {}
    for each in launch.sites:
        if each.site.space == "shared" and each.writes and each.stages > 1:
            held[each.site.buffer] = max(held.get(each.site.buffer, 0), each.stages)
    return held
