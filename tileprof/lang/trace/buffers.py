"""Buffers of a trace: allocation, elements, regions, variables."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import CodeType
from typing import Any

from tileprof import ir
from tileprof.errors import DTypeError, Location, ShapeError
from tileprof.ir.types import bool_, float32, int32
from tileprof.lang.static import fits, is_number
from tileprof.lang.values import (
    Buffer,
    BufferData,
    BufferRegion,
    Expr,
    Placeholder,
    Scalar,
    Symbol,
    Var,
)

from .affine import difference, equal_loads
from .core import Retrace
from .extents import Product, product_of_all
from .scalars import DIVISION, Scalars

PromotionKey = tuple[Location | None, str]


class Buffers(Scalars):
    """Memory: whole buffers, elements and regions."""

    def __init__(self, root: CodeType | None, widened: dict[PromotionKey, ir.DType]) -> None:
        super().__init__(root)
        self.by_value: dict[ir.Value, Buffer] = {}
        self.widened = widened
        """Types of promoted names that an earlier trace found to be too narrow."""
        self._loaded: dict[ir.Value, tuple[int, Expr]] = {}
        self.named_extents: dict[str, Product] = {}
        """Extents of views that are computed from others."""

    # -- allocation

    def buffer(self, value: ir.Value, shape: Sequence[Any] | None = None) -> Buffer:
        """Return the author's handle of a buffer value."""
        held = value.buffer.shape if shape is None else shape
        dims = tuple(Symbol(d) if isinstance(d, str) else d for d in held)
        made = self.by_value[value] = Buffer(value, self.regions[-1], dims)
        return made

    def alloc(self, space: ir.Space, shape: Sequence[Any], kind: ir.DType) -> Buffer:
        """Return a buffer of a block or of a thread."""
        self.need_launch(f"`T.alloc_{space}`")
        return self.buffer(self.emit(ir.Alloc(space, self.sizes(shape), kind)).result)

    def sizes(self, shape: Sequence[Any]) -> tuple[int, ...]:
        """Return a shape of positive numbers; ShapeError for anything else."""
        made: list[int] = []
        for extent in shape:
            number = self.static(extent)
            if number is None:
                self.fail(
                    ShapeError,
                    "the size of an on-chip buffer is known only when the kernel runs",
                    "Use numbers or `T.const` extents: `T.alloc_shared((64, block_K), dtype)`.",
                )
            if number < 1:
                hint = "Extents of an on-chip buffer are 1 or more."
                if number == 0:
                    hint += " For tensors without elements, return before the launch: `if N == 0:`."
                self.fail(ShapeError, f"an extent of {number}", hint)
            made.append(number)
        return tuple(made)

    def static(self, extent: Any, what: str = "an extent") -> int | None:
        """Return the number that an extent is at compile time; None where it is none."""
        if isinstance(extent, Expr):
            op = extent.value.owner
            if isinstance(op, ir.Constant) and op.dtype.is_integer:
                return int(op.value)
            return None
        if isinstance(extent, Placeholder):
            bool(extent)
        if isinstance(extent, Scalar):
            return None
        try:
            return operator.index(extent)
        except TypeError:
            return self.fail(
                ShapeError,
                f"{what} is an integer, not {type(extent).__name__} {extent!r:.60}",
                DIVISION
                if isinstance(extent, float)
                else "Shapes are tuples of integers: `(block_M, block_K)`.",
            )

    def reinterpret(self, buffer: Any, shape: Sequence[Any] | None, kind: ir.DType | None) -> Any:
        """Return the same memory with another shape or element type."""
        held = buffer.buffer if isinstance(buffer, BufferData) else buffer
        if not isinstance(held, Buffer):
            self.fail(DTypeError, f"a buffer is expected here, not {held!r:.60}", "Pass a buffer.")
        made = kind or held.type.dtype
        dims = self._view_shape(held, made) if shape is None else self._dims(shape)
        old, new = self._bytes(held.type.shape, held.type.dtype), self._bytes(dims, made)
        if old != new and not old.symbols and not new.symbols:
            self.fail(
                ShapeError,
                f"{held.type} has {old.number} bytes and the new view {new.number}",
                "A view has as many bytes as the buffer that it shows.",
            )
        if old != new:
            self.fail(
                ShapeError,
                f"{held.type} and a view of it with the extents {_shown(shape or dims)} do not "
                "have equally many bytes",
                "Extents of a view that are known at launch only are those of the buffer, or "
                "products of them and numbers.",
            )
        if (dims, made) == (held.type.shape, held.type.dtype):
            return held
        return self.buffer(self.emit(ir.Reinterpret(self.whole(held), dims, made)).result)

    def _view_shape(self, buffer: Buffer, kind: ir.DType) -> tuple[ir.Dim, ...]:
        *lead, last = buffer.type.shape
        bits = buffer.type.dtype.bits
        if bits == kind.bits:
            return buffer.type.shape
        if not isinstance(last, int) or last * bits % kind.bits:
            self.fail(
                ShapeError,
                f"{buffer.type} cannot be seen as {kind}: its last extent does not fit",
                "Give the new shape: `T.view(buffer, shape, dtype)`.",
            )
        return (*lead, last * bits // kind.bits)

    def _dims(self, shape: Sequence[Any]) -> tuple[ir.Dim, ...]:
        return tuple(self._view_dim(extent) for extent in shape)

    def _view_dim(self, extent: Any) -> ir.Dim:
        if isinstance(extent, Symbol):
            return extent.name
        known = isinstance(extent, Placeholder) or self.static(extent) is not None
        return self.sizes((extent,))[0] if known else self.named_extent(extent)

    def named_extent(self, extent: Any) -> str:
        """Return the name of an extent that is a product of symbols and numbers."""
        raise NotImplementedError

    def _bytes(self, shape: Sequence[ir.Dim], kind: ir.DType) -> Product:
        return product_of_all((*shape, kind.bytes), self.named_extents)

    def whole(self, buffer: Buffer) -> ir.Value:
        """Return the value of a buffer that is used here."""
        self.visible(Expr(buffer.value, buffer.home))
        return buffer.value

    # -- elements

    def load(self, buffer: Buffer, key: Any) -> Any:
        """`buffer[key]`: an element, or a region where there are slices or too few indices."""
        parts = self._parts(buffer, key)
        if any(isinstance(p, slice) for p in parts):
            return self._region(buffer, parts)
        self.need_launch("an element of a buffer")
        value = self.whole(buffer)
        return self.result(ir.Load(value, self._indices(buffer, parts)))

    def _parts(self, buffer: Buffer, key: Any) -> list[Any]:
        parts = list(key) if isinstance(key, (tuple, list)) else [key]
        rank = buffer.ndim
        if Ellipsis in [p for p in parts if not isinstance(p, Scalar)]:
            at = next(i for i, p in enumerate(parts) if p is Ellipsis)
            parts[at : at + 1] = [slice(None)] * (rank - len(parts) + 1)
        if len(parts) > rank:
            self.fail(
                ShapeError,
                f"{len(parts)} indices for `{buffer.name}` of rank {rank}",
                f"Its shape is {_shown(buffer.shape)}.",
            )
        return parts + [slice(None)] * (rank - len(parts))

    def _indices(self, buffer: Buffer, parts: list[Any]) -> list[ir.Value]:
        return [self._index(buffer, at, part) for at, part in enumerate(parts)]

    def _index(self, buffer: Buffer, at: int, part: Any) -> ir.Value:
        extent = buffer.shape[at]
        if is_number(part):
            part = self._literal_index(buffer, at, part)
        if is_number(part) and part < 0:
            return self.index(extent + part)
        value = self.index(part) if is_number(part) else self.value(part)
        if value.dtype == bool_:
            return self.index(self.cast(Expr(value, self.regions[-1]), int32))
        return self._integer(value).value

    def _literal_index(self, buffer: Buffer, at: int, part: Any) -> int:
        number = self.static(part, "an index")
        assert number is not None
        extent = buffer.shape[at]
        if not isinstance(extent, int):
            return number
        # The upper edge of a global tensor is guarded; a tile never reaches over its own.
        low, high = -extent, extent if buffer.type.space != "global" else number + 1
        if not low <= number < high:
            self.fail(
                ShapeError,
                f"index {number} is outside of dimension {at} of `{buffer.name}`, "
                f"which has {extent} elements",
                f"Its shape is {_shown(buffer.shape)}.",
            )
        return number

    def _region(self, buffer: Buffer, parts: list[Any]) -> BufferRegion:
        offsets: list[Any] = []
        extents: list[int | None] = []
        counts: dict[int, Expr] = {}
        for at, part in enumerate(parts):
            if not isinstance(part, slice):
                offsets.append(self._index(buffer, at, part))
                extents.append(1)
                continue
            if part.step is not None and self.static(part.step) != 1:
                self.fail(ShapeError, "a slice with a step", "Slices of buffers have a step of 1.")
            start, extent = self._slice(buffer, at, part)
            offsets.append(start)
            if isinstance(extent, Expr):
                counts[at] = extent
                extent = None
            extents.append(extent)
        span = self.location() if counts else None
        return BufferRegion(buffer, tuple(offsets), tuple(extents), counts, span)

    def _slice(self, buffer: Buffer, at: int, part: slice) -> tuple[ir.Value, int | Expr | None]:
        whole = buffer.shape[at]
        start = self.index(0) if part.start is None else self._index(buffer, at, part.start)
        if part.stop is None and not isinstance(whole, int):
            return start, None if part.start is None else self._extent(self.index(whole), start)
        stop = self.index(whole) if part.stop is None else self._bound(buffer, at, part.stop)
        return start, self._extent(stop, start)

    def _bound(self, buffer: Buffer, at: int, stop: Any) -> ir.Value:
        if is_number(stop) and stop < 0:
            return self.index(buffer.shape[at] + stop)
        return self.index(stop)

    def _extent(self, stop: ir.Value, start: ir.Value) -> int | Expr:
        """Return how many elements a slice has; an expression where only the kernel knows."""
        extent = difference(stop, start)
        if extent is None:
            # Each mention of `start[0]` reads it again.
            extent = difference(stop, start, equal_loads(self.regions[-1].block.ops))
        if extent is None:
            count = self.binary("sub", Expr(stop, self.top), Expr(start, self.top))
            assert isinstance(count, Expr)
            return count
        if extent < 1:
            self.fail(ShapeError, f"a slice of {extent} elements", "A slice has 1 element or more.")
        return extent

    # -- variables

    def alloc_var(self, kind: ir.DType, init: Any) -> Var:
        """Return a variable, set where `init` is given."""
        buffer = self.alloc("local", (), kind)
        if init is not None:
            buffer[()] = init
            self.known.add(buffer.value)
        return Var(buffer, known=init is not None)

    def load_var(self, var: Var) -> Expr:
        """Return the value of a variable; the same value again as long as nothing was stored."""
        if var.indices:
            made: Expr = var.buffer[var.indices]
            return made
        value = var.buffer.value
        epoch, known = self._loaded.get(value, (-1, None))
        if known is None or epoch != self.epoch or not known.region.visible:
            known = self.load(var.buffer, ())
            assert isinstance(known, Expr)
            self.name(known.value, value.name)
            self._loaded[value] = (self.epoch, known)
        return known

    def store_var(self, var: Var, value: Any) -> None:
        """Assign to a variable; a promoted name takes the type that its values need."""
        if var.promoted is not None:
            kind = var.buffer.type.dtype
            needed = self._needed(value, kind)
            if needed != kind:
                self.widened[var.promoted] = needed
                raise Retrace
        var.buffer[var.indices] = value
        self.epoch += 1

    def _needed(self, value: Any, kind: ir.DType) -> ir.DType:
        if isinstance(value, float) and not kind.is_float:
            return float32
        if is_number(value) and not isinstance(value, bool):
            return kind if kind != bool_ and fits(value, kind) else ir.promote(kind, int32)
        return ir.promote(kind, bool_ if is_number(value) else self.value(value).dtype)

    def promote_name(self, name: str, value: Any, span: Location | None) -> Var:
        """Return a variable in the place of a Python name that a loop changes."""
        key = (span, name)
        kind = self.widened.get(key)
        if kind is None:
            kind = self.value(value).dtype
        made = self.alloc_var(kind, value)
        self.name(made.buffer.value, name)
        made.promoted = key
        return made

    def reference(self, expr: Expr) -> Any:
        """Return the place of an element, for a parameter that is passed by reference."""
        op = expr.value.owner
        if not isinstance(op, ir.Load):
            return expr
        indices = [Expr(i, self.top) for i in op.indices]
        self.forget(expr)
        return Var(self.by_value[op.buffer], indices)

    def forget(self, expr: Expr) -> None:
        """Take back a load that only named a place, if nothing else uses it."""
        op = expr.value.owner
        if isinstance(op, ir.Load) and not self.uses[expr.value]:
            for region in reversed(self.regions):
                if op in region.cursor.ops[-64:]:
                    region.cursor.ops.remove(op)
                    self._loaded.pop(op.buffer, None)
                    return


def _shown(shape: Sequence[Any]) -> str:
    return "×".join(d.name if isinstance(d, Symbol) else str(d) for d in shape)
