"""Tile ops that no instruction does as a whole become loops over their elements.

    fill %C, %zero                  →   parallel [64, 32] body(%i, %j) { store %zero, %C, [%i, %j] }
    copy %x[bx·64, 0], %A           →   parallel [64, 32] body(%i, %j) {
                                          %v = load %x, [bx·64 + %i, %j]
                                          store %v, %A, [%i, %j] }

A part of a fragment is copied in a loop over the whole fragment.  Extents of 1 get no loop.
Copies with a `lowering` stay; so do whole rank-2 tiles between fragments and shared memory, with
the lowering `matrix`.  `reduce` then has fragments as operands and `scan`
whole shared buffers, and fragments are printed from shared memory: others go through temporaries.
In: a kernel after `choose`.  Out: no fill, tile_atomic or copy without a lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.cuda.layouts.exchange import scan_scratch
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.errors import KernelError
from tileprof.ir.control import Origin
from tileprof.ir.instructions import Matrices
from tileprof.ir.rewriter import per_launch, with_originals, with_rule
from tileprof.ir.tile import Hints
from tileprof.ir.types import Dim, index

Symbols = Mapping[str, ir.Value]
Point = Callable[[ir.Builder, list[ir.Value]], None]
"""Emits the ops of one point, given the loop variables."""


def expand(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with elementwise tile ops as `parallel`."""
    del lowering
    symbols = kernel.symbol_values()
    threads = 0
    parts: set[ir.Value] = set()
    others: set[ir.Value] = set()

    def rule(op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not (isinstance(op, ir.Copy) and op.lowering is None and _part_of_fragment(op)):
            others.update(op.operand_values())
        match op:
            case ir.Copy(lowering=None) if part := _part_of_fragment(op):
                _copy_part(op, part, builder)
                parts.add(part.result)
            case ir.Copy(lowering=None) if not _is_matrix(op):
                as_parallel(op, builder, symbols)
            case ir.Copy(lowering=None):
                builder.emit(replace(op, lowering=Matrices()))
            case ir.Fill():
                _fill(op, builder, symbols)
            case ir.TileAtomic():
                _tile_atomic(op, builder, symbols)
            case ir.Reduce():
                _reduce(op, builder, symbols)
            case ir.Scan():
                _scan(op, builder, symbols, threads)
            case ir.Print(value=value) if _is_fragment(value):
                assert value is not None
                name = value.name or "fragment"
                shown = _held(op, value, "shared", builder, symbols, read=True, name=name)
                builder.emit(ir.Print(op.message, shown))
            case _:
                return None
        return []

    def change(launch: ir.Launch) -> ir.Launch:
        nonlocal threads
        threads = -(-launch.block_threads // 32) * 32
        parts.clear()
        made = with_rule(launch, rule)
        return _without(made, parts - others)

    return per_launch(kernel, change)


def _without(launch: ir.Launch, parts: set[ir.Value]) -> ir.Launch:
    """The launch without views of fragments that nothing uses any more: they would keep the
    fragments from registers."""
    used = {v for op in ir.walk(launch.body) for v in op.operand_values()}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(op, ir.View) and before.results[0] in parts - used:
            return [op.base]
        return None

    return with_originals(launch, rule) if parts else launch


# -- elementwise ops


@dataclass(frozen=True, slots=True)
class _Form:
    """Attributes of the `Parallel` loop over the elements of a tile, beside its body."""

    origin: Origin
    hints: Hints = ()
    layout: str = ""


def as_parallel(
    op: ir.Copy, builder: ir.Builder, symbols: Symbols | None = None, layout: str = ""
) -> None:
    """A copy as a loop over its elements, added to `builder`; `layout` is that of the loop."""

    def point(inner: ir.Builder, at: list[ir.Value]) -> None:
        value = _load(inner, op.source, at)
        _store(inner, _converted(inner, value, op.target.dtype), op.target, at)

    form = _Form("copy", op.hints, layout)
    _loop(builder, op.target, symbols or {}, form, point)


def _part_of_fragment(op: ir.Copy) -> ir.View | None:
    """The view of a part of a fragment that is copied from or to other memory, if there is one."""
    for held, other in ((op.source, op.target), (op.target, op.source)):
        view = held.owner
        if isinstance(view, ir.View) and view.in_bounds and _is_fragment(view.base):
            whole = not isinstance(view.base.owner, ir.View | ir.Reinterpret)
            return view if whole and not _is_fragment(other) else None
    return None


def _copy_part(op: ir.Copy, part: ir.View, builder: ir.Builder) -> None:
    """A copy of a part of a fragment as a loop over the whole, in which other points do nothing:
    each point then has a register, and the fragment need not lie in memory."""
    whole = part.base

    def point(inner: ir.Builder, at: list[ir.Value]) -> None:
        left = iter(at)
        indices = [None if d == 1 else next(left) for d in whole.buffer.shape]
        conditions, places = [], []
        for place, offset, size, extent in zip(
            indices, part.offsets, part.sizes, whole.buffer.shape, strict=True
        ):
            if place is None:
                continue
            local = _difference(inner, place, offset)
            if size != 1:
                places.append(local)
            if size != extent:
                conditions += _within(inner, local, size, below=local is not place)
        held = [inner.constant(0) if p is None else p for p in indices]
        with inner.inside(_guarded(inner, conditions)):
            if part.result is op.source:
                value = inner.emit(ir.Load(whole, held, True)).result
                _store(inner, _converted(inner, value, op.target.dtype), op.target, places)
            else:
                value = _converted(inner, _load(inner, op.source, places), whole.dtype)
                inner.emit(ir.Store(value, whole, held, True))

    _loop(builder, whole, {}, _Form("copy", op.hints), point)


def _difference(builder: ir.Builder, place: ir.Value, offset: ir.Value) -> ir.Value:
    if ir.constant_of(offset) == 0:
        return place
    return builder.emit(ir.Binary("sub", place, offset)).result


def _within(builder: ir.Builder, place: ir.Value, size: int, *, below: bool) -> list[ir.Value]:
    """Conditions of a place inside a part; `below`: whether it may be negative."""
    found = [builder.emit(ir.Compare("lt", place, builder.constant(size))).result]
    if below:
        found.append(builder.emit(ir.Compare("ge", place, builder.constant(0))).result)
    return found


def _guarded(builder: ir.Builder, conditions: list[ir.Value]) -> ir.Block:
    """The block of ops that run where all conditions hold."""
    if not conditions:
        return builder.block
    both = conditions[0]
    for each in conditions[1:]:
        both = builder.emit(ir.Binary("and", both, each)).result
    then = ir.Block()
    builder.emit(ir.If(both, then, ir.Block()))
    return then


def _fill(op: ir.Fill, builder: ir.Builder, symbols: Symbols) -> None:
    def point(inner: ir.Builder, at: list[ir.Value]) -> None:
        _store(inner, op.value, op.target, at)

    _loop(builder, op.target, symbols, _Form("fill"), point)


def _tile_atomic(op: ir.TileAtomic, builder: ir.Builder, symbols: Symbols) -> None:
    def point(inner: ir.Builder, at: list[ir.Value]) -> None:
        value = _converted(inner, _load(inner, op.source, at), op.target.dtype)
        buffer, indices, inside = _element(inner, op.target, at)
        inner.emit(ir.Atomic(op.kind, value, buffer, indices, inside))

    _loop(builder, op.target, symbols, _Form("atomic", op.hints), point)


def _loop(
    builder: ir.Builder,
    tile: ir.Value,
    symbols: Symbols,
    form: _Form,
    point: Point,
) -> None:
    """A loop over the elements of a tile; one over a single element has one iteration."""
    shape: tuple[Dim, ...] = ir.squeeze(tile) or (1,)
    extents = [builder.constant(d) if isinstance(d, int) else symbols[d] for d in shape]
    if tile.buffer.space == "local":
        _serial(builder, extents, point, [])
        return
    body = ir.Block([ir.Value(index, "ijklmn"[d % 6]) for d in range(len(shape))])
    inner = ir.Builder(body, builder.span)
    point(inner, body.args)
    builder.emit(ir.Parallel(extents, body, form.hints, form.layout, form.origin))


def _serial(builder: ir.Builder, extents: list[ir.Value], point: Point, at: list[ir.Value]) -> None:
    """Every thread goes over all elements: each has a `local` buffer of its own."""
    if not extents:
        point(builder, at)
        return
    body = ir.Block([ir.Value(index, "ijklmn"[len(at) % 6])])
    zero, one = builder.constant(0), builder.constant(1)
    builder.emit(ir.For("unroll", zero, extents[0], one, body))
    _serial(ir.Builder(body, builder.span), extents[1:], point, [*at, *body.args])


def _element(
    builder: ir.Builder, tile: ir.Value, at: list[ir.Value]
) -> tuple[ir.Value, list[ir.Value], bool]:
    """Buffer, indices, and whether they are inside, of the element `at` of a squeezed tile."""
    view = tile.owner
    left = iter(at)  # one too many for a tile of one element
    places = [None if d == 1 else next(left) for d in tile.buffer.shape]
    if not isinstance(view, ir.View):
        return tile, [builder.constant(0) if p is None else p for p in places], True
    indices = [_sum(builder, o, p) for o, p in zip(view.offsets, places, strict=True)]
    return view.base, indices, view.in_bounds


def _sum(builder: ir.Builder, offset: ir.Value, place: ir.Value | None) -> ir.Value:
    if place is None:
        return offset
    if ir.constant_of(offset) == 0:
        return place
    return builder.emit(ir.Binary("add", offset, place)).result


def _load(builder: ir.Builder, tile: ir.Value, at: list[ir.Value]) -> ir.Value:
    return builder.emit(ir.Load(*_element(builder, tile, at))).result


def _store(builder: ir.Builder, value: ir.Value, tile: ir.Value, at: list[ir.Value]) -> None:
    builder.emit(ir.Store(value, *_element(builder, tile, at)))


def _converted(builder: ir.Builder, value: ir.Value, dtype: ir.DType) -> ir.Value:
    return value if value.dtype == dtype else builder.emit(ir.Cast(value, dtype)).result


def _is_matrix(op: ir.Copy) -> bool:
    """Whether matrix instructions may move it: whole rank-2 tiles of a fragment and of shared
    memory, whose elements have 16 bits there."""
    spaces = {op.source.buffer.space, op.target.buffer.space}
    if spaces != {"fragment", "shared"}:
        return False
    if any(isinstance(v.owner, ir.View) for v in (op.source, op.target)):
        return False
    held = op.source if op.source.buffer.space == "shared" else op.target
    return held.buffer.rank == 2 and 1 not in held.buffer.shape and held.dtype.bits == 16


# -- ops with operands where their emission needs them


def _reduce(op: ir.Reduce, builder: ir.Builder, symbols: Symbols) -> None:
    """`reduce` of a fragment into a fragment, with copies around it where they are elsewhere."""
    source = _held(op, op.source, "fragment", builder, symbols, read=True)
    target = _held(op, op.target, "fragment", builder, symbols, read=not op.clear)
    builder.emit(ir.Reduce(op.kind, source, target, op.dim, op.clear))
    _give_back(target, op.target, builder, symbols)


def _scan(op: ir.Scan, builder: ir.Builder, symbols: Symbols, threads: int) -> None:
    """`scan` of a shared buffer into a shared buffer, with memory for warps that share lines."""
    source = _held(op, op.source, "shared", builder, symbols, read=True)
    target = source
    if _is_held(op.target, "shared"):
        target = op.target
    elif source is op.source or source.dtype != op.target.dtype:
        target = _held(op, op.target, "shared", builder, symbols, read=False)
    shape = source.buffer.static_shape
    size = scan_scratch(shape, op.dim, threads, source.dtype, target.dtype)
    scratch = None
    if size:
        made = ir.Alloc("shared", (size,), ir.dtype("uint8"), layout="rows", hint="scratch")
        scratch = builder.emit(made).result
    builder.emit(ir.Scan(op.kind, source, target, op.dim, op.reverse, scratch))
    _give_back(target, op.target, builder, symbols)


def _is_fragment(value: ir.Value | None) -> bool:
    held = value is not None and isinstance(value.type, ir.BufferType)
    return held and value is not None and value.buffer.space == "fragment"


def _is_held(tile: ir.Value, space: ir.Space) -> bool:
    return tile.buffer.space == space and not isinstance(tile.owner, ir.View)


def _held(
    op: ir.OpBase,
    tile: ir.Value,
    space: ir.Space,
    builder: ir.Builder,
    symbols: Symbols,
    *,
    read: bool,
    name: str = "",
) -> ir.Value:
    """The tile as a whole buffer of `space`: itself, or a new one that has its elements if `read`;
    KernelError where its extents are not known."""
    if _is_held(tile, space):
        return tile
    shape = tile.buffer.shape
    sizes = tuple(d for d in shape if isinstance(d, int))
    if len(sizes) != len(shape):
        raise KernelError(
            f"`{op.mnemonic}` of {tile.type}, whose extents are known at launch only",
            location=op.span,
            hint="Take a tile of fixed size of the tensor.",
        )
    made = builder.emit(
        ir.Alloc(space, sizes, tile.dtype, hint=name or f"{op.mnemonic}_held")
    ).result
    if read:
        _copy(tile, made, builder, symbols)
    return made


def _give_back(held: ir.Value, tile: ir.Value, builder: ir.Builder, symbols: Symbols) -> None:
    if held is not tile:
        _copy(held, tile, builder, symbols)


def _copy(source: ir.Value, target: ir.Value, builder: ir.Builder, symbols: Symbols) -> None:
    copy = ir.Copy(source, target, span=builder.span)
    if _is_matrix(copy):
        builder.emit(ir.Copy(source, target, (), Matrices()))
    else:
        as_parallel(copy, builder, symbols)
