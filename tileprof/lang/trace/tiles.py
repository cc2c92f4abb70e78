"""Tile operations of a trace: shapes are matched, an element stands for the tile from there on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from tileprof import ir
from tileprof.errors import DTypeError, KernelError, ShapeError
from tileprof.ir.scalar import zero_of
from tileprof.ir.tile import Hints
from tileprof.lang.shapes import gemm_problem, reduce_problem, squeezed
from tileprof.lang.static import is_number
from tileprof.lang.values import Buffer, BufferRegion, Expr, Scalar, Var

from .buffers import Buffers


class Tiles(Buffers):
    """Copies, matrix products, reductions."""

    # -- operands

    def place(self, held: Any) -> Buffer | BufferRegion | None:
        """Return the part of memory that an operand names: a buffer, a region, or an element, whose
        extents are then open. None for a scalar that is no element.
        """
        if isinstance(held, BufferRegion) and held.counts:
            self.refuse_counts(held)
        if isinstance(held, (Buffer, BufferRegion)):
            return held
        if isinstance(held, Var):
            at = tuple(self._index(held.buffer, n, i) for n, i in enumerate(held.indices))
            return BufferRegion(held.buffer, at, tuple(1 for _ in at))
        if isinstance(held, Expr) and isinstance(held.value.owner, ir.Load):
            load = held.value.owner
            self.visible(held)
            self.forget(held)
            buffer = self.by_value[load.buffer]
            return BufferRegion(buffer, tuple(load.indices), (None,) * len(load.indices))
        return None

    def refuse_counts(self, held: BufferRegion) -> NoReturn:
        """Raise an error about a part whose size only the kernel knows."""
        self.fail(
            ShapeError,
            "the size of this slice is known only when the kernel runs",
            "Write it as start : start + number, or give the first element alone: "
            "`T.copy(A[i, j], tile)` takes the size from `tile`.",
            at=held.span,
        )

    def tile(self, held: Any, what: str) -> ir.Value:
        """Return the operand of a tile operation whose shape must be known by itself."""
        place = self.place(held)
        if place is None:
            self.fail(
                DTypeError,
                f"{what} is a buffer or a region of one, not {held!r:.60}",
                "Pass a buffer, or slices of one: `A_shared[0:64, :]`.",
            )
        if isinstance(place, BufferRegion) and None in place.extents:
            place = self._sized(place, [], what)
        return self.view(place)

    def _sized(self, place: BufferRegion, sizes: list[int], what: str) -> BufferRegion:
        """Open extents taken from `sizes` in order.  An element alone is a tile of one; a `:` over
        a dimension whose size is not known needs one."""
        element = _element(place)
        extents: list[int | None] = []
        for at, extent in enumerate(place.extents):
            if extent is not None or sizes:
                extents.append(sizes.pop(0) if extent is None else extent)
            elif element:
                extents.append(1)
            else:
                self.fail(
                    ShapeError,
                    f"{what} takes all of dimension {at} of `{place.buffer.name}`, whose size is "
                    "known only when the kernel runs",
                    "Name the part: `A[i * 64 : (i + 1) * 64, :]`.",
                )
        return BufferRegion(place.buffer, place.offsets, tuple(extents))

    def view(self, place: Buffer | BufferRegion) -> ir.Value:
        """Return the value of a place: the buffer itself where the place is all of it."""
        if isinstance(place, Buffer):
            return self.whole(place)
        base = self.whole(place.buffer)
        if place.extents == place.buffer.type.shape and all(_zero(o) for o in place.offsets):
            return base
        offsets = [self.index(self.as_scalar(o)) for o in place.offsets]
        sizes = tuple(cast("int", e) for e in place.extents)
        hint = f"{place.buffer.name}_tile" if place.buffer.name else ""
        return self.emit(ir.View(base, offsets, sizes, hint=hint)).result

    def as_scalar(self, offset: Any) -> Any:
        """Return an index as the author's expressions have it."""
        return Expr(offset, self.top) if isinstance(offset, ir.Value) else offset

    # -- copy and fill

    def store(self, buffer: Buffer, key: Any, value: Any) -> None:
        """`buffer[key] = value`, converted to the element type."""
        parts = self._parts(buffer, key)
        if any(isinstance(p, slice) for p in parts):
            if self.inner("parallel") is not None:
                names = ", ".join("ijklmnopqrst"[: buffer.ndim])
                self.fail(
                    ShapeError,
                    f"a point of `T.Parallel` writes a part of `{buffer.name}`, which has "
                    f"{buffer.ndim} dimensions",
                    f"Give an index for each: `{buffer.name}[{names}] = …`; write whole parts "
                    "outside of the loop.",
                )
            region = self._region(buffer, parts)
            if isinstance(value, (Buffer, BufferRegion)):
                self.copy(value, region, ())
            else:
                self.fill(region, value)
            return
        self.need_launch("an element of a buffer")
        kind = buffer.type.dtype
        held = self.cast(value, kind).value
        self.emit(ir.Store(held, self.whole(buffer), self._indices(buffer, parts)))

    def copy(self, source: Any, target: Any, hints: Hints) -> None:
        """Copy a tile; an element on both sides copies one element."""
        if isinstance(target, Var):
            self.store_var(target, source)
            return
        where = self.need_place("the target of `T.copy`", target)
        if _element(where) and (is_number(source) or isinstance(source, Scalar)):
            assert isinstance(where, BufferRegion)
            where.buffer[tuple(self.as_scalar(o) for o in where.offsets)] = source
            return
        origin = self.need_place("the source of `T.copy`", source)
        self.need_tile_place("`T.copy`")
        origin, where = _over_the_edge(origin, where), _over_the_edge(where, origin)
        origin, where = self._match("T.copy", origin, where)
        self.emit(ir.Copy(self.view(origin), self.view(where), hints))

    def need_place(self, what: str, held: Any) -> Buffer | BufferRegion:
        """Return the part of memory that an operand must name."""
        place = self.place(held)
        if place is None:
            self._no_place(what, held)
        return place

    def _no_place(self, what: str, held: Any) -> NoReturn:
        self.fail(
            DTypeError,
            f"{what} is a buffer, a region or an element of one, not {held!r:.60}",
            "Pass `A[i, j]` for the tile that begins there, or a whole buffer.",
        )

    def _match(
        self, what: str, a: Buffer | BufferRegion, b: Buffer | BufferRegion
    ) -> tuple[Buffer | BufferRegion, Buffer | BufferRegion]:
        """Return both places with their extents known, and equal but for extents of 1."""
        a, b = self._complete(a, b, what), self._complete(b, a, what)
        first, second = squeezed(_extents(a)), squeezed(_extents(b))
        if first != second:
            self.fail(
                ShapeError,
                f"`{what}` between {_describe(a)} and {_describe(b)}",
                "Both sides must have the same shape, extents of 1 left out.",
            )
        return a, b

    def _complete(
        self, place: Buffer | BufferRegion, other: Buffer | BufferRegion, what: str
    ) -> Buffer | BufferRegion:
        """Extents that are open taken from the other side, the last dimensions first."""
        if isinstance(place, Buffer) or None not in place.extents:
            return place
        given = _extents(other)
        if not all(isinstance(e, int) for e in given):
            return self._sized(place, [], what)
        if not _element(place):
            return self._sized(place, _without(given, place.extents), what)
        lead, sizes = given[: -len(place.extents)], list(given[-len(place.extents) :])
        if any(e != 1 for e in lead):
            self.fail(
                ShapeError,
                f"`{what}` between {_describe(other)} and `{place.buffer.name}` of rank "
                f"{len(place.extents)}",
                f"The shape of `{place.buffer.name}` is {_shape(place.buffer)}.",
            )
        return self._sized(place, [1] * (len(place.extents) - len(sizes)) + sizes, what)

    def fill(self, target: Any, value: Any) -> None:
        """Write one value to every element."""
        if isinstance(target, Var):
            self.store_var(target, value)
            return
        self.need_tile_place("`T.fill`")
        view = self.tile(target, "the target of `T.fill`")
        self.emit(ir.Fill(view, self.cast(value, view.dtype).value))

    # -- products, reductions, scans

    def gemm(
        self,
        a: Any,
        b: Any,
        c: Any,
        *,
        transpose_a: bool,
        transpose_b: bool,
        clear: Any,
        policy: Any,
        hints: Hints,
    ) -> None:
        """`c += a @ b`, without what `c` held where `clear` is true."""
        self.need_tile_place("`T.gemm`")
        views = [
            self.tile(v, f"operand {n} of `T.gemm`") for v, n in ((a, "A"), (b, "B"), (c, "C"))
        ]
        first, second, into = views
        problem = gemm_problem(
            first.buffer.shape, second.buffer.shape, into.buffer.shape, transpose_a, transpose_b
        )
        if problem is not None:
            names = ", ".join(f"`{_name(v)}` {_dims(v.buffer.shape)}" for v in views)
            self.fail(ShapeError, f"the shapes of {names} do not fit: {problem[0]}", problem[1])
        kinds = first.dtype, second.dtype, into.dtype
        if first.dtype.is_float != second.dtype.is_float or first.dtype.bits != second.dtype.bits:
            self.fail(
                DTypeError,
                f"`T.gemm` multiplies {kinds[0]} with {kinds[1]}",
                "Both operands have one width and are both floats or both integers: copy one of "
                "them to a buffer of the other's type.",
            )
        if first.dtype.is_float != into.dtype.is_float:
            self.fail(
                DTypeError,
                f"`T.gemm` of {kinds[0]} adds up in {kinds[2]}",
                "Floats add up in a float type (float32), integers in an integer type (int32).",
            )
        anew = bool(clear) if is_number(clear) else False
        if not is_number(clear):
            self.clear_where(self.condition(clear), into)
        self.emit(ir.Gemm(first, second, into, transpose_a, transpose_b, anew, policy, hints))

    def clear_where(self, condition: ir.Value, tile: ir.Value) -> None:
        """Set a tile to 0 where a condition of the kernel holds."""
        zero = zero_of(tile.dtype)
        cleared = ir.Block(ops=[zero, ir.Fill(tile, zero.result, span=self.location())])
        self.emit(ir.If(condition, cleared, ir.Block()))

    def reduce(self, kind: Any, source: Any, target: Any, dim: int, clear: bool) -> None:
        """Reduce one dimension."""
        self.need_tile_place(f"`T.reduce_{kind}`")
        origin = self.tile(source, f"the source of `T.reduce_{kind}`")
        into = self.tile(target, f"the target of `T.reduce_{kind}`")
        at = self._dim(dim, origin)
        problem = reduce_problem(origin.buffer.shape, into.buffer.shape, at)
        if problem is not None:
            self.fail(
                ShapeError,
                f"`T.reduce_{kind}` of `{_name(origin)}` {_dims(origin.buffer.shape)} over "
                f"dimension {at} into `{_name(into)}` {_dims(into.buffer.shape)}",
                problem,
            )
        if kind.startswith("bit") and origin.dtype.is_float:
            self.fail(
                DTypeError, f"`T.reduce_{kind}` of {origin.dtype}", "It is for integers and bool."
            )
        self.emit(ir.Reduce(kind, origin, into, at, clear))

    def _dim(self, dim: Any, of: ir.Value) -> int:
        rank = of.buffer.rank
        number = self.static(dim)
        if number is None or not -rank <= number < rank:
            self.fail(
                ShapeError,
                f"there is no dimension {dim} in `{_name(of)}`: it has {rank}",
                f"Dimensions go from 0 to {rank - 1}, or from -{rank} to -1.",
            )
        return number % rank

    def scan(self, kind: Any, source: Any, target: Any, dim: int, reverse: bool) -> None:
        """Inclusive scan along one dimension."""
        self.need_tile_place(f"`T.cum{kind}`")
        origin = self.tile(source, f"the source of `T.cum{kind}`")
        into = origin if target is None else self.tile(target, f"the target of `T.cum{kind}`")
        if origin.buffer.shape != into.buffer.shape:
            self.fail(
                ShapeError,
                f"`T.cum{kind}` from {_dims(origin.buffer.shape)} to {_dims(into.buffer.shape)}",
                "Both must have the same shape.",
            )
        self.emit(ir.Scan(kind, origin, into, self._dim(dim, origin), reverse))

    # -- atomics

    def atomic(
        self, kind: Any, target: Any, value: Any, return_prev: bool, hints: Hints
    ) -> Expr | None:
        """Combine an element or a tile at once."""
        if isinstance(value, (Buffer, BufferRegion)) or isinstance(target, Buffer):
            self._atomic_tile(kind, target, value, return_prev, hints)
            return None
        base, indices = self.element(target, f"the target of `T.atomic_{kind}`")
        self.need_launch(f"`T.atomic_{kind}`")
        if base.dtype == ir.DTYPES["bool"]:
            self.fail(DTypeError, "an atomic operation on bool", "Use an int32 tensor.")
        held = self.cast(value, base.dtype).value
        made = self.result(ir.Atomic(kind, held, base, indices))
        return made if return_prev else None

    def corner(self, target: Any, what: str) -> tuple[Buffer, tuple[Any, ...]]:
        """Return the buffer and the indices of an element as a kernel's values."""
        place = self.place(target)
        if not isinstance(place, BufferRegion) or not _element(place):
            self._no_place(what, target)
        return place.buffer, tuple(self.as_scalar(o) for o in place.offsets)

    def element(self, target: Any, what: str) -> tuple[ir.Value, list[ir.Value]]:
        """Return the buffer and the indices of an element that is written, `what`; an error for
        anything else."""
        place = self.place(target)
        if not isinstance(place, BufferRegion) or not (
            _element(place) or all(e == 1 for e in place.extents)
        ):
            self._no_place(what, target)
        return self.whole(place.buffer), [self._as_value(o) for o in place.offsets]

    def _as_value(self, offset: Any) -> ir.Value:
        return offset if isinstance(offset, ir.Value) else self.index(offset)

    def _atomic_tile(
        self, kind: Any, target: Any, value: Any, return_prev: bool, hints: Hints
    ) -> None:
        self.need_tile_place(f"`T.atomic_{kind}` of a tile")
        if return_prev:
            self.fail(
                KernelError,
                f"`T.atomic_{kind}` of a tile with `return_prev`",
                "Loop over the elements with `T.Parallel` and use what it returns for each.",
            )
        if kind not in ("add", "max", "min"):
            self.fail(
                KernelError,
                f"`T.atomic_{kind}` of a tile",
                "Loop over its elements with `T.Parallel`.",
            )
        where = self.need_place(f"the target of `T.atomic_{kind}`", target)
        origin = self.need_place(f"the source of `T.atomic_{kind}`", value)
        origin, where = self._match(f"T.atomic_{kind}", origin, where)
        self.emit(ir.TileAtomic(kind, self.view(origin), self.view(where), hints))

    # -- diagnostics

    def print(self, value: Any, message: str) -> None:
        """Print a scalar, a buffer, or only the message."""
        self.need_launch("`T.print`")
        held: ir.Value | None = None
        if isinstance(value, (Buffer, BufferRegion)):
            held = self.tile(value, "the argument of `T.print`")
        elif value is not None:
            held = self.value(value)
        self.emit(ir.Print(message, held))

    def device_assert(self, condition: Any, message: str) -> None:
        """Stop with an error where the condition does not hold."""
        self.emit(ir.Assert(message, self.condition(condition)))


def _element(place: Buffer | BufferRegion | None) -> bool:
    return isinstance(place, BufferRegion) and all(e is None for e in place.extents)


def _over_the_edge(
    place: Buffer | BufferRegion, other: Buffer | BufferRegion
) -> Buffer | BufferRegion:
    """Return a part of a tensor with the extents of a tile that is longer than a whole dimension:
    past the edge it reads as 0, and is not written."""
    if not isinstance(place, BufferRegion) or place.buffer.type.space != "global":
        return place
    dims = [dim for dim, extent in enumerate(place.extents) if extent != 1]
    wanted = squeezed(_extents(other))
    extents = list(place.extents)
    for dim, size in zip(dims, wanted) if len(dims) == len(wanted) else ():
        whole = extents[dim]
        if isinstance(whole, int) and isinstance(size, int) and size > whole:
            extents[dim] = size if whole == place.buffer.type.shape[dim] else whole
    return BufferRegion(place.buffer, place.offsets, tuple(extents), place.counts, place.span)


def _extents(place: Buffer | BufferRegion) -> tuple[Any, ...]:
    return place.type.shape if isinstance(place, Buffer) else place.extents


def _without(given: Sequence[int], extents: Sequence[int | None]) -> list[int]:
    """Return the extents of the other side that this side does not have yet, those of 1 left
    out."""
    wanted = [e for e in given if e != 1]
    for extent in extents:
        if extent is not None and extent in wanted:
            wanted.remove(extent)
    return wanted


def _zero(offset: Any) -> bool:
    op = offset.owner if isinstance(offset, ir.Value) else None
    return isinstance(op, ir.Constant) and op.value == 0


def _name(value: ir.Value) -> str:
    base = value.owner.base if isinstance(value.owner, ir.View) else value
    return base.name or "?"


def _dims(shape: Sequence[Any]) -> str:
    return "×".join(map(str, shape)) or "(one element)"


def _shape(buffer: Buffer) -> str:
    return _dims(buffer.type.shape)


def _describe(place: Buffer | BufferRegion) -> str:
    if isinstance(place, Buffer):
        return f"`{place.name}` {_dims(place.type.shape)}"
    return f"a tile {_dims(place.extents)} of `{place.buffer.name}`"
