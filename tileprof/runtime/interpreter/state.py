"""The state of a batch of blocks that run in lock step: who they are, what is known, who acts."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import ExecutionError, Location
from tileprof.runtime.events.access import Access, AccessKind, Listener, block_indices
from tileprof.runtime.interpreter.buffers import Buffer
from tileprof.runtime.interpreter.facts import Facts
from tileprof.runtime.interpreter.lanes import Array, Mask, Scalar
from tileprof.runtime.interpreter.recording import Recorder

STAMP_BITS = 36
MAX_BLOCKS = 1 << (63 - STAMP_BITS - 1)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run."""

    strict_bounds: bool = False
    """A global access with no element inside is an error."""
    batch: int | None = None
    """Blocks that run at once; None chooses by the size of their buffers."""
    while_limit: int = 1_000_000
    """Iterations after which a `while` counts as endless."""


Handler = Callable[["State", Any], None]
Code = Sequence[tuple[Handler, ir.OpBase, Sequence[ir.Value]]]
"""Handler, op and values that are not used after it, for each op."""


@dataclass(slots=True, eq=False)
class Parallel:
    """One execution of a `parallel`, while its points run."""

    op: ir.Parallel
    axes: tuple[int, ...]
    """Lane axes of its loop variables."""
    base: int
    """The first stamp of its points (see `races.py`)."""
    rounds: int
    """Number of rounds of stamps that the outermost `parallel` has used."""


@dataclass(slots=True, eq=False)
class Loop:
    """The innermost loop: lanes that left it, by `break`."""

    broken: Mask = False


@dataclass(slots=True, eq=False)
class State:
    """Everything that ops read and change.

    Ops outside a launch run as one block that has no index.
    """

    kernel: ir.Kernel
    facts: Facts
    options: Options
    recorder: Recorder
    output: Output
    code: Mapping[ir.Block, Code]
    """The ops of each block, ready to run."""
    constants: Mapping[ir.OpBase, Scalar]
    tick: Callable[[ir.OpBase, int], None] | None = None
    """Tells a clock of executed ops about one, and for how many blocks."""
    events: Listener | None = None
    """Listener that is called with every access."""
    env: dict[ir.Value, Any] = field(default_factory=dict)
    mask: Mask = True
    op: ir.OpBase | None = None
    """The op that is being executed."""

    grid: tuple[int, ...] = ()
    grids: list[tuple[int, ...]] = field(default_factory=list)
    """The grid of each launch so far."""
    launched: bool = False
    blocks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    """Linear index of each block of the batch, first grid axis fastest."""

    loop: Loop = field(default_factory=Loop)
    trip: int = -1
    """Iteration of the innermost pipelined loop around, from 0; -1 outside of any."""
    stages: int = 0
    """Stages of that loop."""
    iterations: tuple[int, ...] = ()
    """Iteration of each `for` around, from 0, the outermost first."""
    yielded: list[Scalar] = field(default_factory=list)
    parallels: list[Parallel] = field(default_factory=list)
    axis_of: dict[ir.Value, int] = field(default_factory=dict)
    """The lane axis of each loop variable of the `parallel`s around."""
    points: list[int] = field(default_factory=list)
    """Extent of each lane axis after the first."""
    stamp: int = 1
    """The next stamp that no point has had."""

    guarded: dict[Location | None, int] = field(default_factory=lambda: defaultdict(int))
    _leads: dict[tuple[int, ...], Array] = field(default_factory=dict)
    _codes: Array | None = None

    def begin(self, blocks: NDArray[np.int64], *, launched: bool) -> None:
        """Start a batch."""
        self.blocks, self.launched = blocks, launched
        self.mask, self.stamp = True, 1
        self.points = [1] * self.facts.depth
        self.forget_shapes()

    def forget_shapes(self) -> None:
        """Blocks or points are others now."""
        self._leads.clear()
        self._codes = None

    @property
    def count(self) -> int:
        """Blocks in the batch."""
        return len(self.blocks)

    @property
    def lanes(self) -> tuple[int, ...]:
        """The shape of all lanes."""
        return (self.count, *self.points)

    def per_block(self, values: Array) -> Array:
        """One value a block as a scalar."""
        return values.reshape(-1, *(1,) * self.facts.depth)

    def along(self, axis: int, values: Array) -> Array:
        """Values along one lane axis as a scalar."""
        return values.reshape(*(-1 if a == axis else 1 for a in range(self.facts.depth + 1)))

    def lead(self, shape: tuple[int, ...]) -> Array:
        """Return the begin of each lane's part of a block buffer, in parts; `shape`: its lead
        axes."""
        known = self._leads.get(shape)
        if known is None:
            known = np.zeros((1,) * len(shape), np.int64)
            for axis, extent in enumerate(shape):
                known = known * extent + self.along(axis, np.arange(extent))
            self._leads[shape] = known
        return known

    def codes(self) -> Array:
        """Return each lane's identity for races: its block's number + 1 above its point's stamp."""
        if self._codes is None:
            code = self.per_block((self.blocks + 1) << STAMP_BITS)
            if self.parallels:
                code = code + self._stamps()
            self._codes = code
        return self._codes

    def _stamps(self) -> Array:
        outer, inner = self.parallels[0], self.parallels[-1]
        own = self._linear(outer.axes)
        if inner is outer:
            return own + outer.base
        rest = tuple(a for p in self.parallels[1:] for a in p.axes)
        return outer.base + (inner.rounds + self._linear(rest)) * self.size_of(outer) + own

    def _linear(self, axes: tuple[int, ...]) -> Array:
        at = np.zeros((1,) * (self.facts.depth + 1), np.int64)
        for axis in axes:
            extent = self.points[axis - 1]
            at = at * extent + self.along(axis, np.arange(extent))
        return at

    def size_of(self, parallel: Parallel) -> int:
        """Return the number of its points."""
        return math.prod(self.points[a - 1] for a in parallel.axes)

    @contextmanager
    def inside(self, op: ir.Parallel, extents: list[int]) -> Iterator[Parallel]:
        """Give each point of a box a lane of its own."""
        used = sum(len(p.axes) for p in self.parallels)
        axes = tuple(range(used + 1, used + 1 + len(extents)))
        for axis, extent, arg in zip(axes, extents, op.body.args):
            self.points[axis - 1] = extent
            self.axis_of[arg] = axis
            self.env[arg] = self.along(axis, np.arange(extent))
        parallel = self._stamped(op, axes)
        self.parallels.append(parallel)
        self.forget_shapes()
        try:
            yield parallel
        finally:
            self.parallels.pop()
            for axis, arg in zip(axes, op.body.args):
                self.points[axis - 1] = 1
                del self.axis_of[arg]
            self.forget_shapes()

    def _stamped(self, op: ir.Parallel, axes: tuple[int, ...]) -> Parallel:
        size = math.prod(self.points[a - 1] for a in axes)
        if not self.parallels:
            made = Parallel(op, axes, self.stamp, 1)
            self.stamp += size
        else:
            # Rounds of the outermost points: the outer point of a stamp is its rest by their count.
            outer = self.parallels[0]
            inner = math.prod(self.points) // self.size_of(outer)
            made = Parallel(op, axes, self.stamp, outer.rounds)
            outer.rounds += inner
            self.stamp += inner * self.size_of(outer)
        if self.stamp >= 1 << STAMP_BITS:
            raise ExecutionError(
                f"a block runs more than 2**{STAMP_BITS} points of T.Parallel",
                location=op.span,
                hint="The interpreter checks every one of them; run this kernel on `cpu`.",
            )
        return made

    def where(self, lane: tuple[int, ...]) -> str:
        """`block (1, 0), point (i=3)`: the lane in words; '' outside a launch."""
        block, point = self.lane_place(lane)
        if block is None:
            return ""
        shown = ", ".join(f"{name}={value}" for name, value in point)
        return f"{named(block)}, point ({shown})" if point else named(block)

    def lane_place(
        self, lane: tuple[int, ...]
    ) -> tuple[tuple[int, ...] | None, tuple[tuple[str, int], ...]]:
        """Return the indices of a lane's block, None outside a launch, and the loop variables of
        its point."""
        if not self.launched:
            return None, ()
        point = [
            (arg.name or "i", lane[axis])
            for p in self.parallels
            for arg, axis in zip(p.op.body.args, p.axes)
        ]
        return block_indices(int(self.blocks[lane[0]]), self.grid), tuple(point)

    def first(self, mask: Mask) -> tuple[int, ...]:
        """Return the first lane of a mask in which some lane is."""
        spread = np.broadcast_to(np.asarray(mask), self.lanes)
        return tuple(int(i) for i in np.unravel_index(int(spread.argmax()), self.lanes))

    def number_active(self, mask: Mask) -> int:
        """Return the number of lanes in a mask."""
        if isinstance(mask, bool):
            return math.prod(self.lanes) if mask else 0
        repeats = math.prod(self.lanes) // mask.size
        return int(np.count_nonzero(mask)) * repeats

    def active_blocks(self, mask: Mask) -> NDArray[np.int64] | None:
        """Return the blocks of the batch that have a lane in the mask; None for all of them."""
        if mask is True:
            return None
        held = np.broadcast_to(np.asarray(mask), (self.count, *np.shape(mask)[1:]))
        found = np.flatnonzero(held.reshape(self.count, -1).any(1))
        return None if len(found) == self.count else found

    def count_guarded(self, op: ir.OpBase, count: int) -> None:
        """Note elements that were guarded, by source line."""
        line = None if op.span is None else Location(op.span.file, op.span.line)
        self.guarded[line] += count

    def note(
        self,
        op: ir.OpBase,
        kind: AccessKind,
        buffer: Buffer,
        starts: Sequence[Scalar],
        sizes: tuple[int, ...],
    ) -> None:
        """Call the listener, where there is one, with an access of the active lanes."""
        if self.events is not None:
            launch = len(self.grids) - 1 if self.launched else -1
            self.events.note(
                Access(
                    self.kernel, op, kind, buffer, launch, self.blocks, self.lanes, self.mask,
                    tuple(starts), sizes, self.trip, self.stages, self.iterations,
                )
            )  # fmt: skip

    def at(self, scalar: Scalar, lane: tuple[int, ...]) -> Any:
        """Return the value of a scalar in one lane."""
        if np.ndim(scalar) == 0:
            return scalar
        return scalar[tuple(min(i, n - 1) for i, n in zip(lane, scalar.shape))]


def named(block: tuple[int, ...] | None) -> str:
    """Return a block in words."""
    return "" if block is None else f"block ({', '.join(map(str, block))})"


@dataclass(slots=True)
class Output:
    """The lines of a batch, by block, until the batch is over or an error ends it.

    Every block prints: a message under `if bx == 0` appears once.
    """

    _lines: dict[int, list[str]] = field(default_factory=dict)

    def add(self, block: int, line: str) -> None:
        """A line of a block of the batch."""
        self._lines.setdefault(block, []).append(line)

    def flush(self) -> None:
        """Write everything to stdout."""
        if self._lines:
            lines = [line for block in sorted(self._lines) for line in self._lines[block]]
            self._lines.clear()
            sys.stdout.write("\n".join(lines) + "\n")
