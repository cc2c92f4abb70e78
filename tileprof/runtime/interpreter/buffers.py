"""Buffers as the interpreter holds them: values, and which elements were written and by whom.

A global buffer is the caller's array.  A buffer of a block is one array for all blocks of a batch,
(blocks, axis 1, …, axis D, *shape): the axes are 1 unless each point of a `parallel` has its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import ArgumentError, ShapeError
from tileprof.errors import Location as Place

from .lanes import Array, Mask, Scalar


@dataclass(slots=True, eq=False)
class Memory:
    """Values, and a shadow of them: which elements somebody wrote."""

    data: Array
    blank: bool
    """Nobody has written anything yet; the shadow is made when it is first needed."""
    shadow: Array | None = None
    """Mask of written elements; None if all were written (or none: `blank`)."""
    by_bits: bool = False
    """The shadow has the size of the elements, all bits set where written: it can then be
    reinterpreted as the data is."""

    def shadowed(self) -> Array | None:
        """Return the shadow; None where every element was written."""
        if self.blank:
            bits = f"u{self.data.dtype.itemsize}" if self.by_bits else "?"
            self.shadow, self.blank = np.zeros(self.data.shape, bits), False
        return self.shadow

    def open_shadow(self) -> Array:
        """Return the shadow as an array, also where every element was written."""
        if self.shadowed() is None:
            self.blank = True
            held = self.shadowed()
            assert held is not None
            held[...] = np.True_ if held.dtype == np.bool_ else np.iinfo(held.dtype).max
        assert self.shadow is not None
        return self.shadow

    def copy(self) -> Memory:
        """The same arrays and state, to go back to."""
        return Memory(self.data, self.blank, self.shadow, self.by_bits)

    def fill_shadow(self) -> None:
        """Every element was written."""
        self.shadow, self.blank = None, False

    def clear_shadow(self) -> None:
        """No element counts as written any more."""
        self.shadow, self.blank = None, True


@dataclass(slots=True, eq=False)
class Buffer:
    """A buffer as ops see it: a memory under a shape and an element type."""

    name: str
    type: ir.BufferType
    shape: tuple[int, ...]
    memory: Memory
    lead: int
    """Number of axes before those of `shape`: 0 for a global buffer."""
    safe: Scalar = 0
    """Value of a guarded read."""
    out: bool = False
    """A parameter that the caller does not give."""
    base: Buffer | None = None
    """The buffer that this one reinterprets."""
    writers: Array | None = field(default=None)
    """Last writer of each element, by (lead axes, shape), flat (see `races.py`)."""

    @property
    def is_global(self) -> bool:
        """Whether it is an argument of the kernel."""
        return self.lead == 0

    @property
    def data(self) -> Array:
        """The values, (lead axes, *shape)."""
        return self._seen(self.memory.data, self.type.dtype.to_numpy())

    @property
    def shadow(self) -> Array | None:
        """Return a mask of the written elements, shaped like `data`; None if all were."""
        held = self.memory.shadowed()
        if held is None:
            return None
        bits = f"u{self.type.dtype.bytes}"
        return self._seen(held, np.dtype(bits) if self.memory.by_bits else held.dtype)

    @property
    def written(self) -> Any:
        """Return the value of a written element in `shadow`."""
        if not self.memory.by_bits:
            return np.True_
        return np.array(-1, f"i{self.type.dtype.bytes}").view(f"u{self.type.dtype.bytes}")[()]

    def _seen(self, held: Array, dtype: np.dtype[Any]) -> Array:
        if self.base is None:
            return held
        lead = held.shape[: self.lead]
        return held.reshape(*lead, -1).view(dtype).reshape(*lead, *self.shape)

    def finish(self) -> None:
        """Forget the shadow where every element was written by now."""
        held = self.memory.shadow
        if held is not None:
            full = np.True_ if held.dtype == np.bool_ else np.iinfo(held.dtype).max
            if held.size == 0 or (held.flat[-1] == full and bool((held == full).all())):
                self.memory.fill_shadow()


@dataclass(slots=True, eq=False)
class Cell:
    """A scalar variable: a `local` buffer of rank 0 that is only loaded and stored."""

    name: str
    value: Scalar = 0
    written: Mask = False


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Operand of a tile op: `sizes` elements of a buffer from `offsets` on."""

    buffer: Buffer
    offsets: tuple[Scalar, ...]
    sizes: tuple[int, ...]
    proved: bool = False
    """A pass says that all of it lies inside."""


def whole(buffer: Buffer) -> Tile:
    """Return all of a buffer."""
    return Tile(buffer, (0,) * len(buffer.shape), buffer.shape)


def reinterpret(
    base: Buffer, name: str, type_: ir.BufferType, shape: tuple[int, ...], place: Place | None
) -> Buffer:
    """`base` under another shape or element type, sharing its memory and shadow."""
    have = math.prod(base.shape) * base.type.dtype.bytes
    want = math.prod(shape) * type_.dtype.bytes
    if have != want:
        raise ShapeError(
            f"`{base.name}` of {have} bytes cannot be seen as {list(shape)} of {type_.dtype},"
            f" which has {want}",
            location=place,
            hint="A view moves nothing: both must have the same size.",
        )
    if base.is_global and not base.memory.data.flags.c_contiguous:
        raise ArgumentError(
            f"`{base.name}` is seen under another shape, but its elements do not lie in order:"
            f" strides {list(base.memory.data.strides)} bytes for shape {list(base.shape)}",
            location=place,
            hint="Pass a contiguous copy.",
        )
    safe: Any = np.zeros((), type_.dtype.to_numpy())[()]
    return Buffer(name, type_, shape, base.memory, base.lead, safe, base.out, base)
