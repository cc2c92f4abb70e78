"""Copies between fragments and shared memory: as 8×8 matrices where the fragment lies so, else
element by element.

    uint32_t words[4] = {tp_pack2<TpBfloat>(c[0], c[1]), …};        four words of each lane
    tp_stmatrix_x4(C_s + …, words);

An accumulator in float32 is converted on the way.  Everything else is a parallel loop with the
layout of the fragment.
"""

from __future__ import annotations

from collections.abc import Callable

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.cuda.layouts import RegisterLayout

from .buffers import FragmentBuffer, SharedBuffer
from .context import Context
from .matrices import Matrices, SharedTile, find_matrices, loops, shared_tile
from .parallel import emit_as_parallel
from .points import leader, thread_coordinates

__all__ = ["emit_copy"]

EmitBlock = Callable[[Context, ir.Block], None]


def emit_copy(ctx: Context, op: ir.Copy, emit_block: EmitBlock) -> None:
    """A copy between a fragment and shared memory."""
    source, target = (ctx.tile(v).buffer for v in (op.source, op.target))
    if isinstance(source, FragmentBuffer) and isinstance(target, SharedBuffer):
        done = _stored(ctx, op, source)
    elif isinstance(source, SharedBuffer) and isinstance(target, FragmentBuffer):
        done = _loaded(ctx, op, target)
    else:
        done = False
    if not done:
        _elementwise(ctx, op, emit_block)


def _stored(ctx: Context, op: ir.Copy, source: FragmentBuffer) -> bool:
    """Whether stmatrix does it, which it then did."""
    narrows = op.source.dtype.name == "float32" and op.target.dtype.name in ("float16", "bfloat16")
    if not ctx.target.has_tma or not (narrows or op.source.dtype == op.target.dtype):
        return False
    match = _match(ctx, op.source, op.target, source)
    if match is None:
        return False
    found, tile = match
    ctx.headers.add("matrix.cuh")
    once = leader(found.lanes)
    ctx.writer.line(f"if ({once}) {{" if once else "{")
    with ctx.writer.deeper(), loops(ctx, found.runs) as (number, steps):
        first = _first_register(number, op.target.dtype)
        words = _words(ctx, source, first, found.at_once, narrows=narrows, to=op.target.dtype)
        address = tile.address(_coordinates(found, steps))
        ctx.writer.line(f"tp_stmatrix{found.suffix}({address}, {words});")
    ctx.writer.close("}")
    return True


def _first_register(word: Extent, dtype: ir.DType) -> Extent:
    """The register that word `word` begins with."""
    return times(4 // dtype.bytes, word)


def _words(
    ctx: Context, source: FragmentBuffer, first: Extent, count: int, *, narrows: bool, to: ir.DType
) -> str:
    """An array of `count` words from the registers that start at `first`."""
    words = ctx.names.fresh("words")
    if not narrows:
        ctx.writer.line(f"uint32_t {words}[{count}];")
        ctx.writer.line(f"tp_to_words<{count}>({words}, {source.array} + {first});")
        return words
    pairs = [[f"{source.array}[{plus(first, 2 * at + e)}]" for e in (0, 1)] for at in range(count)]
    packed = ", ".join(f"tp_pack2<{storage(to)}>({low}, {high})" for low, high in pairs)
    ctx.writer.line(f"const uint32_t {words}[{count}] = {{{packed}}};")
    return words


def _loaded(ctx: Context, op: ir.Copy, target: FragmentBuffer) -> bool:
    """Whether ldmatrix does it, which it then did."""
    if op.source.dtype != op.target.dtype:
        return False
    match = _match(ctx, op.target, op.source, target)
    if match is None:
        return False
    found, tile = match
    count = found.at_once
    ctx.headers.add("matrix.cuh")
    ctx.writer.line("{")
    with ctx.writer.deeper(), loops(ctx, found.runs) as (number, steps):
        words = ctx.names.fresh("words")
        ctx.writer.line(f"uint32_t {words}[{count}];")
        address = tile.address(_coordinates(found, steps))
        ctx.writer.line(f"tp_ldmatrix{found.suffix}({words}, {address});")
        first = _first_register(number, op.target.dtype)
        ctx.writer.line(f"tp_from_words<{count}>({target.array} + {first}, {words});")
    ctx.writer.close("}")
    return True


def _coordinates(found: Matrices, steps: list[Extent]) -> list[Extent]:
    start = thread_coordinates(found.lanes)
    return [plus(s, t) for s, t in zip(start, steps or [0] * len(start))]


def _match(
    ctx: Context, fragment: ir.Value, shared: ir.Value, held: FragmentBuffer
) -> tuple[Matrices, SharedTile] | None:
    """The fragment as matrices of the tile in shared memory."""
    if isinstance(fragment.owner, ir.View):
        return None
    layout = _squeezed(held.layout, shared.buffer.static_shape)
    if layout.registers_per_thread != held.layout.registers_per_thread:
        return None
    found = find_matrices(layout, shared.dtype)
    tile = shared_tile(ctx, shared)
    return (found, tile) if found is not None and tile.aligned else None


def _squeezed(layout: RegisterLayout, shape: tuple[int, ...]) -> RegisterLayout:
    """The layout under a shape that differs in extents of 1."""
    kept = iter([d for d, extent in enumerate(layout.shape) if extent != 1])
    return layout.select([None if extent == 1 else next(kept) for extent in shape], shape)


def _elementwise(ctx: Context, op: ir.Copy, emit_block: EmitBlock) -> None:
    fragment = op.target if op.source.buffer.space == "shared" else op.source
    held = ctx.fragment(fragment)
    shape = tuple(int(d) for d in ir.squeeze(fragment)) or (1,)
    emit_as_parallel(ctx, op, emit_block, str(_squeezed(held.layout, shape)))
