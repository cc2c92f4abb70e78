"""Buffers as CUDA C++ text: where an element is, in each memory space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout, parse_shared
from tileprof.compiler.cuda.layouts.shared import LINES
from tileprof.compiler.cuda.lowering import has_open_rows
from tileprof.ir.types import Dim


class Typed:
    """Memory that holds elements of one type."""

    __slots__ = ()
    dtype: ir.DType

    @property
    def type(self) -> str:
        """The C++ type of an element."""
        return storage(self.dtype)


def wide_row_major(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides in elements of a contiguous tensor: products of extents, each of which fits into 31
    bits, have 64."""
    strides: list[Extent] = []
    step: Extent = 1
    is_wide = False
    for extent in reversed(shape):
        strides.insert(0, step)
        product = times(step, extent)
        if not is_wide and isinstance(product, str) and step != 1 and extent != 1:
            product, is_wide = times(f"(int64_t){step}", extent), True
        step = product
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class GlobalBuffer(Typed):
    """A parameter, or a part of one under another shape."""

    pointer: str
    dtype: ir.DType
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    """Strides in elements; texts are of type int or int64_t."""
    name: str
    """Shape as the author knows it, for messages."""
    dims: tuple[Dim, ...]
    """The shape with the names of symbols."""
    safe: float | int = 0
    """Value that a read outside gives."""
    param: int = -1
    """Its position among the kernel's parameters."""
    alignment: int = 16
    """Bytes that divide the address of its first element."""
    wide: bool = True
    """Whether offsets may pass 2³¹ elements."""
    steps: tuple[Dim, ...] | None = None
    """The strides with the names of symbols; None for a row-major tensor."""
    looks: bool = False
    """Whether the kernel itself looks whether its address is a multiple of an access."""

    def step(self, dim: int) -> Dim | tuple[Dim, ...]:
        """Elements between neighbours of a dimension; a tuple is a product."""
        if self.steps is not None:
            return self.steps[dim]
        after = self.dims[dim + 1 :]
        if all(isinstance(extent, int) for extent in after):
            return math.prod(extent for extent in after if isinstance(extent, int))
        return after[0] if len(after) == 1 else after

    def offset(self, indices: Sequence[Extent]) -> Extent:
        """Elements from the start to the element at `indices`."""
        terms = []
        for index, stride in zip(indices, self.strides, strict=True):
            folds = index in (0, 1) or stride == 1
            folds |= isinstance(index, int) and isinstance(stride, int)
            wide = self.wide and not folds
            terms.append(times(f"(int64_t){paren(index)}" if wide else index, stride))
        return plus(*terms)

    def element(self, indices: Sequence[Extent]) -> str:
        """The element as an lvalue."""
        return f"{self.pointer}[{self.offset(indices)}]"


@dataclass(frozen=True, slots=True)
class SharedBuffer(Typed):
    """A tile in the block's shared memory; `pointer` is the text of an `unsigned char *`."""

    pointer: str
    dtype: ir.DType
    layout: SharedLayout
    name: str
    dims: tuple[Dim, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements."""
        return self.layout.shape

    def byte_offset(self, indices: Sequence[Extent]) -> Extent:
        """Bytes from the start of the buffer to the element at `indices`."""
        layout, size = self.layout, self.dtype.bytes
        lead = self.lead_offset(indices)
        column: Extent = indices[-1] if indices else 0
        row: Extent = indices[-2] if len(indices) > 1 else 0
        if not layout.swizzle:
            return plus(lead, times(plus(times(row, layout.panel), column), size))
        panel, within = _divided(column, layout.panel)
        # The pattern goes by addresses: it starts anew with a panel of whole periods only.
        lines = layout.panel_lines
        line = plus(row, times(panel, lines)) if lines % LINES else row
        mask = _mask(line, layout)
        chunk: Extent
        if isinstance(within, int) and isinstance(mask, int):
            chunk = (within * size) ^ (mask * 16)
        else:
            chunk = f"({paren(times(within, size))} ^ {paren(times(mask, 16))})"
        return plus(lead, times(panel, layout.panel_bytes), times(row, layout.swizzle), chunk)

    def lead_offset(self, indices: Sequence[Extent]) -> Extent:
        """Bytes from the start of the buffer to the tile, of the last two dimensions, of an
        element."""
        return plus(*(times(i, s) for i, s in zip(indices, self.layout.lead_strides())))

    def tile_offset(self, row: Extent, column: Extent) -> Extent:
        """Bytes from the start of a tile to one of its elements."""
        return self.byte_offset([*[0] * (len(self.shape) - 2), row, column])

    def row_offset(self, indices: Sequence[Extent]) -> Extent:
        """Bytes from the start of the buffer to a tile of whole rows, where the pattern of its
        swizzle begins: its first row is a multiple of eight."""
        row: Extent = indices[-2] if len(indices) > 1 else 0
        size = self.layout.panel * self.dtype.bytes
        return plus(self.lead_offset(indices), times(row, size))

    def address(self, indices: Sequence[Extent]) -> str:
        """A pointer to the element at `indices`."""
        return self.pointer_at(self.byte_offset(indices))

    def pointer_at(self, offset: Extent) -> str:
        """A pointer to the element so many bytes from the start of the buffer."""
        at = self.pointer if offset == 0 else f"({self.pointer} + {offset})"
        return f"(({self.type} *){at})"

    def element(self, indices: Sequence[Extent]) -> str:
        """The element as an lvalue."""
        return f"*{self.address(indices)}"


def _divided(value: Extent, by: int) -> tuple[Extent, Extent]:
    """Quotient and remainder of an index that is not negative, by a power of two."""
    if isinstance(value, int):
        return divmod(value, by)
    shift = by.bit_length() - 1
    return f"({paren(value)} >> {shift})", f"({paren(value)} & {by - 1})"


def _mask(row: Extent, layout: SharedLayout) -> Extent:
    step, count = 128 // layout.swizzle, layout.swizzle // 16
    if isinstance(row, int):
        return row // step % count
    shift = step.bit_length() - 1
    shifted = f"({paren(row)} >> {shift})" if shift else paren(row)
    return f"({shifted} & {count - 1})"


@dataclass(frozen=True, slots=True)
class FragmentBuffer(Typed):
    """A tile in registers: `array` holds the elements of this thread by register number."""

    array: str
    dtype: ir.DType
    layout: RegisterLayout
    name: str
    dims: tuple[Dim, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements."""
        return self.layout.shape


@dataclass(frozen=True, slots=True)
class LocalBuffer(Typed):
    """Memory of one thread: a variable (rank 0) or an array, row-major."""

    variable: str
    dtype: ir.DType
    shape: tuple[int, ...]
    name: str
    dims: tuple[Dim, ...] = ()

    def element(self, indices: Sequence[Extent]) -> str:
        """The element as an lvalue."""
        if not self.shape:
            return self.variable
        offset: Extent = 0
        for index, extent in zip(indices, self.shape, strict=True):
            offset = plus(times(offset, extent), index)
        return f"{self.variable}[{offset}]"


Buffer = GlobalBuffer | SharedBuffer | FragmentBuffer | LocalBuffer


def buffers_of(
    kernel: ir.Kernel,
    strides: Callable[[ir.Param, ir.BufferType], tuple[Extent, ...]],
    unaligned: frozenset[int],
) -> dict[ir.Value, Buffer]:
    """Return parameters and shared buffers as the emission knows them, by their values.

    `strides` gives those of a parameter; `unaligned` as in `Lowering`.
    """
    found: dict[ir.Value, Buffer] = {}
    for at, (param, value) in enumerate(zip(kernel.params, kernel.param_values())):
        kind = param.type
        if isinstance(kind, ir.BufferType):
            found[value] = GlobalBuffer(
                param.name, kind.dtype, kind.shape, strides(param, kind), param.name, kind.shape,
                alignment=kind.dtype.bytes if at in unaligned else 16, looks=has_open_rows(kind),
            )  # fmt: skip
    for op in kernel.ops():
        if isinstance(op, ir.Alloc) and op.space == "shared":
            layout = parse_shared(op.layout, op.shape, op.dtype)
            found[op.result] = SharedBuffer("", op.dtype, layout, op.result.name, op.shape)
    return found
