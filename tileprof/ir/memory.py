"""Buffers, views of them, and accesses of single elements.

An access of a global buffer may pass its upper edge: it is guarded, so a read gives the
parameter's safe value and a write is dropped, unless `in_bounds` says that it is proved inside.
A negative index, and any index outside a shared, fragment or local buffer, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from .core import OpBase, Value, attribute, op, operand, operands
from .effects import Effect
from .types import BufferType, Dim, DType, Space, Type, bool_

AtomicKind = Literal["add", "max", "min", "and", "or", "xor", "exchange"]


@op("alloc", effect=Effect.PURE)
class Alloc(OpBase):
    """A buffer of a block (`shared`, `fragment`) or of a thread (`local`), not initialised.
    A scalar variable is a `local` buffer of rank 0."""

    space: Space = attribute(positional=True)
    shape: tuple[int, ...] = attribute()
    dtype: DType = attribute()
    layout: str = attribute(default="")
    """The layout that the author asked for, then the one that the backend chose, as text; ''
    leaves it to the compiler."""
    offset: int = attribute(default=-1)
    """Bytes from the start of the block's shared memory; -1 before it is planned."""

    def result_types(self) -> tuple[Type, ...]:
        """Return the buffer."""
        return (BufferType(self.shape, self.dtype, self.space),)


@op("view")
class View(OpBase):
    """The tile of `base` that starts at `offsets` and has `sizes` (one number a dimension).
    It may pass the edge of a global buffer; what lies outside is guarded by the op that uses it,
    unless `in_bounds` says that it is proved inside.  The offsets of a view of a view add up, and
    its edge is that of the buffer."""

    base: Value = operand(Effect.PURE)
    offsets: list[Value] = operands()
    sizes: tuple[int, ...] = attribute()
    in_bounds: bool = attribute(default=False)

    def result_types(self) -> tuple[Type, ...]:
        """Return a buffer type of the tile's shape in the base's space."""
        return (BufferType(self.sizes, self.base.dtype, self.base.buffer.space),)

    def verify(self) -> Iterator[str]:
        """One offset and one size for each dimension of the base."""
        rank = self.base.buffer.rank
        if not len(self.offsets) == len(self.sizes) == rank:
            yield f"{len(self.offsets)} offsets and {len(self.sizes)} sizes for rank {rank}"


@op("reinterpret")
class Reinterpret(OpBase):
    """The memory of `base` under another shape or element type, row-major, nothing moved."""

    base: Value = operand(Effect.PURE)
    shape: tuple[Dim, ...] = attribute()
    dtype: DType = attribute()

    def result_types(self) -> tuple[Type, ...]:
        """Return the buffer as it is seen from now on."""
        return (BufferType(self.shape, self.dtype, self.base.buffer.space),)


def base(value: Value) -> Value:
    """Return the allocation or the parameter in whose memory a buffer lies."""
    while isinstance(value.owner, View | Reinterpret):
        value = value.owner.base
    return value


def _verify_indices(buffer: Value, indices: list[Value]) -> Iterator[str]:
    if len(indices) != buffer.buffer.rank:
        yield f"{len(indices)} indices for {buffer.type}"
    for each in indices:
        if isinstance(each.type, BufferType) or not each.type.is_integer:
            yield f"an index is {each.type}, not an integer"
    if isinstance(buffer.owner, View):
        yield "elements are accessed through the buffer, not through a view"


@op("load")
class Load(OpBase):
    """Read one element."""

    buffer: Value = operand(Effect.READ, at="indices")
    indices: list[Value] = operands()
    in_bounds: bool = attribute(default=False)

    def result_types(self) -> tuple[Type, ...]:
        """Return the element."""
        return (self.buffer.dtype,)

    def verify(self) -> Iterator[str]:
        """One integer index for each dimension."""
        yield from _verify_indices(self.buffer, self.indices)


@op("store")
class Store(OpBase):
    """Write one element."""

    value: Value = operand()
    buffer: Value = operand(Effect.WRITE, at="indices")
    indices: list[Value] = operands()
    in_bounds: bool = attribute(default=False)

    def verify(self) -> Iterator[str]:
        """One integer index for each dimension; the value has the element type."""
        yield from _verify_indices(self.buffer, self.indices)
        if self.value.type != self.buffer.dtype:
            yield f"stores {self.value.type} into {self.buffer.type}"


@op("atomic")
class Atomic(OpBase):
    """Combine one element with `value` at once and give what was there before."""

    kind: AtomicKind = attribute(positional=True)
    value: Value = operand()
    buffer: Value = operand(Effect.READ | Effect.WRITE, at="indices")
    indices: list[Value] = operands()
    in_bounds: bool = attribute(default=False)

    def result_types(self) -> tuple[Type, ...]:
        """Return the element before."""
        return (self.buffer.dtype,)

    def verify(self) -> Iterator[str]:
        """Check what a store checks; bool has no atomics."""
        yield from _verify_indices(self.buffer, self.indices)
        if self.value.type != self.buffer.dtype or self.value.type == bool_:
            yield f"atomic {self.kind} of {self.value.type} on {self.buffer.type}"
