"""Buffers, views and addresses as C++ text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.ir.types import Dim

from .types import is_pair, storage

_LOOSE = re.compile(r"[<>&|^?=]")
_LOOSER = re.compile(r"[&|^?]")

Extent = int | str
"""A number, or C++ text of an `int64_t`."""


def paren(text: Extent) -> str:
    """The text as an operand of any operator."""
    shown = str(text)
    if shown.replace("_", "").isalnum() or (shown.startswith("(") and is_pair(shown)):
        return shown
    return f"({shown})"


def compared(text: Extent) -> Extent:
    """The text as an operand of a comparison, which masks and choices bind less than."""
    return paren(text) if _LOOSER.search(str(text)) else text


def times(a: Extent, b: Extent) -> Extent:
    """a · b, folded where both are numbers or one is 0 or 1."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    if a == 1:
        return b
    return a if b == 1 else f"{paren(a)} * {paren(b)}"


def plus(*parts: Extent) -> Extent:
    """The sum, numbers folded into one at the end."""
    number = sum(p for p in parts if isinstance(p, int))
    # Shifts, masks, comparisons and choices bind less than a sum.
    texts = [
        paren(p) if _LOOSE.search(p) else p for p in (str(p) for p in parts if isinstance(p, str))
    ]
    if not texts:
        return number
    tail = [f"+ {number}" if number > 0 else f"- {-number}"] if number else []
    return " ".join([" + ".join(texts), *tail])


def minus(a: Extent, b: Extent) -> Extent:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else f"{a} - {paren(b)}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory under a shape: where it starts, how far apart elements are, and what it is called."""

    pointer: str
    dtype: ir.DType
    space: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    name: str
    """Shape as the author knows it, for messages."""
    dims: tuple[Dim, ...]
    """The shape with the names of symbols."""
    safe: float | int = 0
    """Value that a read outside gives."""
    variable: str = ""
    """A `local` buffer of rank 0 is a C++ variable of this name."""

    @property
    def is_global(self) -> bool:
        """Whether the caller owns it, so that accesses outside are guarded."""
        return self.space == "global"

    @property
    def type(self) -> str:
        """The C++ type of an element."""
        return storage(self.dtype)

    def offset(self, indices: Sequence[Extent]) -> Extent:
        """Elements from the start to the element at `indices`."""
        return plus(*(times(i, s) for i, s in zip(indices, self.strides, strict=True)))

    def element(self, indices: Sequence[Extent]) -> str:
        """The element as an lvalue."""
        return self.variable or f"{self.pointer}[{self.offset(indices)}]"


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a buffer: `size` elements a dimension from `offset`; sizes are numbers, or texts
    where a whole buffer of unknown extent is meant."""

    buffer: Buffer
    offset: tuple[Extent, ...]
    size: tuple[Extent, ...]
    fits: tuple[bool, ...]
    """Whether the end of each dimension is known to lie inside."""

    @property
    def pointer(self) -> str:
        """The address of the first element."""
        offset = self.buffer.offset(self.offset)
        return self.buffer.pointer if offset == 0 else f"{self.buffer.pointer} + {offset}"

    @property
    def dims(self) -> list[int]:
        """The dimensions whose extent is not 1."""
        return [d for d, size in enumerate(self.size) if size != 1]

    def there(self, dim: int) -> Extent:
        """Return how many of the tile's elements exist along `dim`."""
        size, extent, offset = self.size[dim], self.buffer.shape[dim], self.offset[dim]
        if not self.buffer.is_global or self.fits[dim]:
            return size
        return f"tp_clip({minus(extent, offset)}, {size})"

    def is_whole(self) -> bool:
        """Whether no element can be missing."""
        return all(self.there(d) == s for d, s in enumerate(self.size))


def packed(pointer: str, dtype: ir.DType, size: tuple[Extent, ...]) -> Tile:
    """A tile of its own memory, row-major."""
    shape = size or (1,)
    buffer = Buffer(pointer, dtype, "shared", shape, row_major(shape), pointer, ())
    return Tile(buffer, (0,) * len(shape), shape, (True,) * len(shape))


def row_major(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides in elements of a contiguous buffer."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step = times(step, extent)
    return tuple(strides)


def reshaped(buffer: Buffer, pointer: str, dtype: ir.DType, shape: tuple[Extent, ...]) -> Buffer:
    """The memory of a buffer under another shape and element type."""
    return replace(
        buffer,
        pointer=pointer,
        dtype=dtype,
        shape=shape,
        strides=row_major(shape),
        variable="",
    )
