"""Tile ops as calls of the prelude's templates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tileprof import ir

from .access import ATOMICS
from .buffers import Extent, Tile, packed, times
from .context import Context, Place
from .matmul import emit_gemm
from .types import literal, stored

_REDUCE = {
    "sum": "TpSum",
    "max": "TpMax",
    "min": "TpMin",
    "abssum": "TpAbsSum",
    "absmax": "TpAbsMax",
    "bitand": "TpBitAnd",
    "bitor": "TpBitOr",
    "bitxor": "TpBitXor",
}


def emit_tile_op(ctx: Context, op: ir.TileOp) -> None:
    """One tile op, its corners checked first."""
    with ctx.borrowed():
        _emit(ctx, op)


def _emit(ctx: Context, op: ir.TileOp) -> None:
    match op:
        case ir.Copy():
            source, target = _operand(ctx, op, op.source), _operand(ctx, op, op.target)
            copy(ctx, source, target)
        case ir.Fill():
            target = _operand(ctx, op, op.target)
            value = stored(ctx.bare(op.value), op.target.dtype)
            ctx.writer.line(f"tp_fill({tile_text(target)}, {value});")
        case ir.Gemm():
            _gemm(ctx, op)
        case ir.Reduce():
            _reduce(ctx, op)
        case ir.Scan():
            _scan(ctx, op)
        case ir.TileAtomic():
            _tile_atomic(ctx, op)


def _operand(ctx: Context, op: ir.OpBase, value: ir.Value) -> Tile:
    tile = ctx.tile(value)
    if isinstance(value.owner, ir.View):
        _check_corner(ctx, op, value.owner, tile)
    return tile


def _check_corner(ctx: Context, op: ir.OpBase, view: ir.View, tile: Tile) -> None:
    """No tile starts before its buffer; in a buffer of the block none ends behind it either."""
    needed = []
    for value, offset, size, extent in zip(
        view.offsets, tile.offset, tile.size, tile.buffer.shape, strict=True
    ):
        low, high = ctx.interval(value)
        if low is None or low < 0:
            needed.append(f"{offset} >= 0")
        if tile.buffer.is_global or not isinstance(extent, int) or not isinstance(size, int):
            continue
        if high is None or high + size > extent:
            needed.append(f"{offset} <= {extent - size}")
    if needed:
        place = Place(
            "tile",
            op.span,
            buffer=tile.buffer.name,
            shape=tile.buffer.dims,
            rank=len(tile.offset),
            sizes=tile.size,
        )
        ctx.fail_unless(" && ".join(needed), place, list(tile.offset))


# -- copies


def tile_text(tile: Tile, *, const: bool = False, all_dims: bool = False) -> str:
    """`TpTile<T, R>{pointer, {strides}, {how many are there}}`; extents of 1 are left out, unless
    `all_dims`."""
    rank = len(tile.size)
    dims = list(range(rank)) if all_dims else tile.dims or [rank - 1][: min(rank, 1)]
    strides = ", ".join(str(tile.buffer.strides[d]) for d in dims) or "1"
    there = ", ".join(str(s) for s in _there(tile, dims)) or "1"
    type_ = f"{'const ' if const else ''}{tile.buffer.type}"
    return f"TpTile<{type_}, {max(len(dims), 1)}>{{{tile.pointer}, {{{strides}}}, {{{there}}}}}"


def _there(tile: Tile, dims: Sequence[int]) -> list[Extent]:
    """Return what is there along `dims`; nothing at all where a dimension left out is outside."""
    found = [tile.there(d) for d in dims]
    for dim in range(len(tile.size)):
        if dim not in dims and (left := tile.there(dim)) != 1:
            found[0] = times(found[0], left)
    return found


def copy(ctx: Context, source: Tile, target: Tile) -> None:
    """`tp_copy(target, source, safe)`, or one long row where both lie without gaps."""
    if source.is_whole() and target.is_whole() and _contiguous(source) and _contiguous(target):
        count = math.prod(int(source.size[dim]) for dim in source.dims)
        ctx.writer.line(f"tp_copy_row({target.pointer}, 1, {source.pointer}, 1, {count});")
        return
    dtype = target.buffer.dtype
    safe = stored(literal(source.buffer.safe, dtype), dtype)
    ctx.writer.line(f"tp_copy({tile_text(target)}, {tile_text(source, const=True)}, {safe});")


def _contiguous(tile: Tile) -> bool:
    """Whether the elements lie row-major without gaps, by numbers alone."""
    step = 1
    for dim in reversed(tile.dims):
        size = tile.size[dim]
        if tile.buffer.strides[dim] != step or not isinstance(size, int):
            return False
        step *= size
    return True


@contextmanager
def _in_block(ctx: Context, tile: Tile, *, write_back: bool = False) -> Iterator[Tile]:
    """A tile of the caller's memory as a tile of the block: whole, contiguous, of known size."""
    if not tile.buffer.is_global:
        yield tile
        return
    count = math.prod(int(size) for size in tile.size)
    memory = ctx.take(count * tile.buffer.dtype.bytes)
    held = packed(f"(({tile.buffer.type} *){memory})", tile.buffer.dtype, tile.size)
    copy(ctx, tile, held)
    yield held
    if write_back:
        copy(ctx, held, tile)


def _gemm(ctx: Context, op: ir.Gemm) -> None:
    ctx.headers.add("gemm.h")
    with (
        _in_block(ctx, _operand(ctx, op, op.a)) as a,
        _in_block(ctx, _operand(ctx, op, op.b)) as b,
        _in_block(ctx, _operand(ctx, op, op.c), write_back=True) as c,
    ):
        emit_gemm(ctx, op, a, b, c)


# -- reductions and scans


def _reduce(ctx: Context, op: ir.Reduce) -> None:
    ctx.headers.add("reduce.h")
    with (
        _in_block(ctx, _operand(ctx, op, op.source)) as source,
        _in_block(ctx, _operand(ctx, op, op.target), write_back=True) as target,
    ):
        others = [d for d in range(len(source.size)) if d != op.dim and source.size[d] != 1]
        pairs = list(zip(others, target.dims, strict=True))
        kind, clear = _REDUCE[op.kind], str(op.clear).lower()
        size, stride = source.size[op.dim], source.buffer.strides[op.dim]
        columns = bool(pairs) and pairs[-1][0] > op.dim
        inner = pairs.pop() if pairs else None

        def call(to: str, at: str) -> None:
            n: Extent = 1 if inner is None else source.size[inner[0]]
            step: Extent = 0 if inner is None else source.buffer.strides[inner[0]]
            to_step: Extent = 0 if inner is None else target.buffer.strides[inner[1]]
            if columns:
                arguments = f"{to}, {to_step}, {at}, {stride}, {step}, {size}, {n}, {clear}"
                ctx.writer.line(f"tp_reduce_columns<{kind}>({arguments});")
            else:
                arguments = f"{to}, {to_step}, {at}, {step}, {stride}, {n}, {size}, {clear}"
                ctx.writer.line(f"tp_reduce_rows<{kind}>({arguments});")

        _each(ctx, source, target, pairs, call)


def _each(
    ctx: Context,
    source: Tile,
    target: Tile,
    pairs: Sequence[tuple[int, int]],
    call: Callable[[str, str], None],
) -> None:
    """`call(target, source)` inside one loop for each pair of dimensions."""

    def nest(depth: int, to: list[str], at: list[str]) -> None:
        if depth == len(pairs):
            call(" + ".join(to), " + ".join(at))
            return
        of, into = pairs[depth]
        name = ctx.names.fresh("ijkl"[depth % 4])
        head = f"for (int64_t {name} = 0; {name} < {source.size[of]}; ++{name})"
        with ctx.writer.braces(head):
            nest(
                depth + 1,
                [*to, str(times(name, target.buffer.strides[into]))],
                [*at, str(times(name, source.buffer.strides[of]))],
            )

    with ctx.scope():
        nest(0, [target.pointer], [source.pointer])


def _scan(ctx: Context, op: ir.Scan) -> None:
    ctx.headers.add("reduce.h")
    with (
        _in_block(ctx, _operand(ctx, op, op.source)) as source,
        _in_block(ctx, _operand(ctx, op, op.target), write_back=True) as target,
    ):
        others = [(d, d) for d in range(len(source.size)) if d != op.dim and source.size[d] != 1]
        size, reverse = source.size[op.dim], str(op.reverse).lower()
        row, to_row = source.buffer.strides[op.dim], target.buffer.strides[op.dim]
        columns = others.pop()[0] if others and others[-1][0] > op.dim else None

        def call(to: str, at: str) -> None:
            if columns is None:
                text = f"{to}, {to_row}, {at}, {row}, {size}, {reverse}"
                ctx.writer.line(f"tp_scan_line<{_REDUCE[op.kind]}>({text});")
                return
            step, to_step = source.buffer.strides[columns], target.buffer.strides[columns]
            text = f"{to}, {to_row}, {to_step}, {at}, {row}, {step}"
            text += f", {size}, {source.size[columns]}, {reverse}"
            ctx.writer.line(f"tp_scan_columns<{_REDUCE[op.kind]}>({text});")

        _each(ctx, source, target, others, call)


def _tile_atomic(ctx: Context, op: ir.TileAtomic) -> None:
    ctx.headers.add("atomics.h")
    with _in_block(ctx, _operand(ctx, op, op.source)) as source:
        target = _operand(ctx, op, op.target)
        kind, shared = ATOMICS[op.kind], str(target.buffer.is_global).lower()
        tiles = f"{tile_text(target)}, {tile_text(source, const=True)}"
        ctx.writer.line(f"tp_tile_atomic<{kind}, {shared}>({tiles});")
