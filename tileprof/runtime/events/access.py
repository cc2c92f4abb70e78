"""One access by all blocks that run an op together, and who is called with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tileprof import ir

AccessKind = Literal["read", "write", "atomic"]
Ints = NDArray[np.int64]


class Buffer(Protocol):
    """A buffer as an op sees it."""

    @property
    def name(self) -> str:
        """Name in the author's source."""
        ...

    @property
    def type(self) -> ir.BufferType:
        """Element type and memory space."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        ...

    @property
    def memory(self) -> object:
        """Identity of the memory, which buffers that reinterpret each other share."""
        ...


@dataclass(slots=True, eq=False)
class Access:
    """One op's access of one buffer, in all lanes: a lane is a point of a `parallel` in a block.

    Numbers that differ between lanes are arrays that broadcast to `lanes`; they are not copied when
    an access is noted, and never change.
    """

    kernel: ir.Kernel
    op: ir.OpBase
    kind: AccessKind
    buffer: Buffer
    launch: int
    """Number of the launch in its kernel's run, from 0; -1 for an op outside of any."""
    blocks: Ints
    """Linear index of each block; the first axis of the grid counts fastest."""
    lanes: tuple[int, ...]
    """Number of blocks, then the extent of each axis of the `parallel`s around."""
    mask: Any
    """Mask of the lanes that take part: True for all."""
    starts: tuple[Any, ...]
    """Index of the first element, one for each dimension; it may lie outside the buffer."""
    sizes: tuple[int, ...]
    """Elements in each dimension."""
    trip: int
    """Iteration of the innermost pipelined loop around, from 0; -1 outside of any."""
    stages: int
    """Stages of that loop."""
    iterations: tuple[int, ...]
    """Iteration of each `for` around, from 0, the outermost first."""

    def of_blocks(self, chosen: Ints) -> Access:
        """Return the access of the blocks at the positions `chosen`; numbers are copied."""

        def part(value: Any) -> Any:
            alike = not isinstance(value, np.ndarray) or value.ndim == 0 or value.shape[0] == 1
            return value if alike else value[chosen]

        lanes, starts = (len(chosen), *self.lanes[1:]), tuple(map(part, self.starts))
        return Access(
            self.kernel, self.op, self.kind, self.buffer, self.launch, self.blocks[chosen], lanes,
            part(self.mask), starts, self.sizes, self.trip, self.stages, self.iterations,
        )  # fmt: skip

    def active(self) -> Lanes:
        """Return the active lanes."""
        if self.mask is True:
            return Lanes(self.blocks, self.lanes, None)
        return Lanes(self.blocks, self.lanes, np.broadcast_to(self.mask, self.lanes).reshape(-1))

    def elements(self) -> Any:
        """Return the number of elements of each lane that lie inside the buffer, which broadcasts
        to `lanes`."""
        inside: Any = 1
        for start, size, extent in zip(self.starts, self.sizes, self.buffer.shape):
            low = np.asarray(start, np.int64)
            span = np.minimum(low + size, extent) - np.maximum(low, 0)
            inside = inside * np.maximum(span, 0)
        return inside

    def flat(self) -> tuple[Ints, Ints]:
        """Return the elements inside the buffer that active lanes access, one by one: the block
        that does it, and the element's row-major number in the buffer."""
        lanes = self.active()
        count = lanes.count
        block = np.empty(count, np.int64)
        lanes.put(block, lanes.block())
        rank = len(self.sizes)
        shape = (count, *self.sizes)
        number, inside = np.zeros((count, *(1,) * rank), np.int64), np.ones((), np.bool_)
        for axis, (start, size, extent) in enumerate(
            zip(self.starts, self.sizes, self.buffer.shape)
        ):
            begin = np.empty(count, np.int64)
            lanes.put(begin, start)
            offset = np.arange(size).reshape(*(size if a == axis else 1 for a in range(rank)))
            index = begin.reshape(-1, *(1,) * rank) + offset
            number = number * extent + index
            inside = inside & (index >= 0) & (index < extent)
        held = np.broadcast_to(inside, shape).reshape(-1)
        owners = np.broadcast_to(block.reshape(-1, *(1,) * rank), shape).reshape(-1)
        return owners[held], np.broadcast_to(number, shape).reshape(-1)[held]


@dataclass(slots=True)
class Lanes:
    """Active lanes of an access."""

    blocks: Ints
    extents: tuple[int, ...]
    """Number of blocks, then the extent of each axis of points."""
    kept: NDArray[np.bool_] | None
    """Mask of the lanes, flat; None for all."""

    @property
    def count(self) -> int:
        """Number of active lanes."""
        return math.prod(self.extents) if self.kept is None else int(np.count_nonzero(self.kept))

    def block(self) -> Ints:
        """Return the linear index of each block, which broadcasts to `extents`."""
        return self.blocks.reshape(-1, *(1,) * (len(self.extents) - 1))

    def point(self) -> Ints:
        """Return the row-major number of each point; -1 where there is only one."""
        points = math.prod(self.extents[1:])
        numbers = np.arange(points) if points > 1 else np.full(1, -1)
        return numbers.reshape(1, *self.extents[1:])

    def put(self, out: NDArray[Any], values: Any) -> None:
        """Write one number for each active lane to `out`; `values` broadcast to `extents`."""
        if self.kept is None:
            out.reshape(self.extents)[...] = values
        else:
            out[...] = np.broadcast_to(values, self.extents).reshape(-1)[self.kept]


def block_indices(linear: int, grid: tuple[int, ...]) -> tuple[int, ...]:
    """Return the indices of a block from its linear index."""
    indices = []
    for extent in grid:
        linear, at = divmod(linear, extent)
        indices.append(at)
    return tuple(indices)


class Listener(Protocol):
    """An object that is called with every access."""

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Note that a kernel starts to run on arguments, one for each parameter, and the values of
        its symbols."""
        ...

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Note that a launch of the kernel begins."""
        ...

    def note(self, access: Access) -> None:
        """Take one access, before it happens."""
        ...


current: ContextVar[Listener | None] = ContextVar("tileprof_events", default=None)
"""Listener of the kernels that the interpreter runs."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener` called with the accesses of all kernels that run inside."""
    token = current.set(listener)
    try:
        yield
    finally:
        current.reset(token)
