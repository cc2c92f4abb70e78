"""Shared-memory layouts: rows of a tile, padded or swizzled against bank conflicts.

    ""             row-major
    "pad=8"        row-major with 8 unused elements after each row
    "apart=128"    row-major, and each tile of the last two dimensions begins at a multiple of so
                   many bytes
    "swizzle=128"  rows are cut into panels of 128 bytes; panel after panel, row after row, and in
                   each row the 16-byte chunks are exchanged by the number of the row

The swizzles are those of TMA and wgmma (PTX ISA, "Swizzling modes"): within `swizzle` bytes, chunk
c of row r lies at chunk c xor f(r), where the hardware counts rows by addresses, on from panel to
panel.  Leading dimensions (slots of a ring, batches) are outermost.

TMA writes and reads from multiples of 128 bytes on, so panels and slots of rings begin there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.binary.occupancy import round_up
from tileprof.compiler.cuda.target import BOX_START
from tileprof.errors import InternalError
from tileprof.ir.memory import base

Swizzle = Literal[0, 32, 64, 128]
CHUNK = 16
"""Bytes that a swizzle moves as one."""
SWIZZLES: tuple[Swizzle, ...] = (128, 64, 32)
"""Bytes of a row of a swizzle's panel, the widest first."""
LINES = 8
"""Rows after which every pattern repeats."""
ALIGNMENT = 1024
"""Bytes at which the pattern of the widest swizzle repeats, and where tiles of one begin."""


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """The layout of a shared buffer of `shape` with elements of `dtype`."""

    shape: tuple[int, ...]
    dtype: ir.DType
    swizzle: Swizzle = 0
    pad: int = 0
    """Elements after each row; for layouts without a swizzle."""
    apart: int = 0
    """Bytes of which each tile of the last two dimensions begins at a multiple, where tiles do not
    follow each other; for layouts without a swizzle."""

    def __post_init__(self) -> None:
        if self.swizzle and self.columns % self.panel:
            raise InternalError(f"rows of {self.columns} {self.dtype} in panels of {self.panel}")

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Rows of a tile: the last dimension but one."""
        return self.shape[-2] if len(self.shape) > 1 else 1

    @property
    def panel(self) -> int:
        """Elements of a row that lie together."""
        return self.swizzle // self.dtype.bytes if self.swizzle else self.columns + self.pad

    @property
    def tile_bytes(self) -> int:
        """Bytes of the last two dimensions, aligned so that a swizzle starts anew after them."""
        if not self.swizzle:
            size = self.rows * (self.columns + self.pad) * self.dtype.bytes
            return round_up(size, self.apart or 1)
        size = self.columns // self.panel * self.panel_bytes
        return round_up(size, ALIGNMENT) if len(self.shape) > 2 else size

    @property
    def panel_bytes(self) -> int:
        """From one panel to the next, where a box of TMA may begin."""
        size = self.rows * self.panel * self.dtype.bytes
        return round_up(size, BOX_START) if self.swizzle else size

    @property
    def panel_lines(self) -> int:
        """Rows of a panel, and of what lies before the next one."""
        return self.panel_bytes // self.swizzle if self.swizzle else self.rows

    @property
    def bytes(self) -> int:
        """Bytes of the whole buffer."""
        return self.tile_bytes * math.prod(self.shape[:-2])

    @property
    def alignment(self) -> int:
        """Bytes at which the buffer has to start."""
        return ALIGNMENT if self.swizzle else BOX_START

    def lead_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours of each dimension but the last two."""
        strides: list[int] = []
        size = self.tile_bytes
        for extent in reversed(self.shape[:-2]):
            strides.insert(0, size)
            size *= extent
        return tuple(strides)

    def address(self, coordinates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Bytes from the start of the buffer: int64[…, rank] to int64[…]."""
        column = coordinates[..., -1] if self.shape else np.zeros(coordinates.shape[:-1], np.int64)
        row = coordinates[..., -2] if len(self.shape) > 1 else np.zeros_like(column)
        width = self.panel
        if self.swizzle:
            address = column // width * self.panel_bytes + row * self.swizzle
            within = column % width * self.dtype.bytes
            line = row + column // width * self.panel_lines
            address = address + (within ^ (self.row_mask(line) * CHUNK))
        else:
            address = (row * width + column) * self.dtype.bytes
        for d, stride in enumerate(self.lead_strides()):
            address = address + coordinates[..., d] * stride
        return address

    def row_mask(self, row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """f(row): which chunks of a row are exchanged; rows count on from panel to panel."""
        return row // (128 // self.swizzle) % (self.swizzle // CHUNK)

    def __str__(self) -> str:
        if self.swizzle:
            return f"swizzle={self.swizzle}"
        if self.apart:
            return f"apart={self.apart}"
        return f"pad={self.pad}" if self.pad else "rows"

    def begins_at(self, offsets: Sequence[int]) -> int:
        """A number of bytes that divides the place of an element, where each of its coordinates is
        a multiple of a number; 0 for a coordinate that is 0."""
        size = self.dtype.bytes
        row = self.swizzle or self.panel * size
        strides = [*self.lead_strides(), row, size][-len(self.shape) :] if self.shape else []
        steps = (at * stride for at, stride in zip(offsets, strides, strict=True))
        return math.gcd(self.alignment, *steps)

    def slots(self, count: int) -> SharedLayout:
        """The layout of so many tiles like this one, each of which TMA can fill."""
        made = replace(self, shape=(count, *self.shape))
        if self.swizzle or made.lead_bytes % BOX_START == 0:
            return made
        if len(self.shape) > 1:
            return replace(made, apart=BOX_START)
        # Slots are rows there.
        return replace(made, pad=-self.columns % (BOX_START // self.dtype.bytes))

    @property
    def lead_bytes(self) -> int:
        """From one index of the first dimension to the next."""
        strides = (*self.lead_strides(), self.panel * self.dtype.bytes)
        return strides[0]


def tile_bytes(value: ir.Value) -> int:
    """Bytes of a tile in shared memory, in its layout."""
    return _layout_of(value).tile_bytes


def slot_bytes(value: ir.Value) -> int:
    """Bytes from one tile like this to the next, in a ring of them."""
    return _layout_of(value).slots(2).lead_bytes


def _layout_of(value: ir.Value) -> SharedLayout:
    alloc = base(value).owner
    assert isinstance(alloc, ir.Alloc)
    return parse_shared(alloc.layout, alloc.shape, alloc.dtype)


@cache
def parse_shared(text: str, shape: Sequence[int], dtype: ir.DType) -> SharedLayout:
    """The layout that `str` printed; anything else is row-major."""
    name, _, number = text.partition("=")
    if name == "swizzle" and number in ("32", "64", "128"):
        return SharedLayout(tuple(shape), dtype, swizzle=_SWIZZLES[number])
    if name == "apart" and number.isdigit():
        return SharedLayout(tuple(shape), dtype, apart=int(number))
    if name == "pad" and number.isdigit():
        return SharedLayout(tuple(shape), dtype, pad=int(number))
    return SharedLayout(tuple(shape), dtype)


_SWIZZLES: dict[str, Swizzle] = {"32": 32, "64": 64, "128": 128}
