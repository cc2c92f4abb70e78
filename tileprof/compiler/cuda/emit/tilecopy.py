"""Copies between fragments and shared memory: as 8×8 matrices where the fragment lies so, else
element by element.

    tp_pack<TpBfloat, 8>(packed, c + 8 * i);        four words of each lane
    tp_stmatrix_x4(C_s + …, packed);

An accumulator in float32 is converted on the way.  Everything else is a parallel loop with the
layout of the fragment.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.cuda.layouts import RegisterLayout

from .buffers import FragmentBuffer, SharedBuffer
from .context import Context, EmitBlock
from .gemm.matrices import Matrices, SharedTile, at, find_matrices, loops, shared_tile
from .loops.parallel import emit_as_parallel
from .loops.points import leader, thread_coordinates


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
    once = leader(source.layout)
    ctx.writer.line(f"if ({once}) {{" if once else "{")
    with ctx.writer.deeper(), ctx.scope():
        start = _first_row(ctx, found)
        with loops(ctx, found.runs) as (number, steps):
            packed = ctx.names.fresh("packed")
            ctx.writer.line(f"uint32_t {packed}[{found.at_once}];")
            first = at(source.array, times(4 // op.target.dtype.bytes, number))
            first = at(first, _part_start(op.source, source))
            kind, count = storage(op.target.dtype), 2 * found.at_once
            call = f"pack<{kind}, {count}>" if narrows else f"to_words<{found.at_once}>"
            ctx.writer.line(f"tp_{call}({packed}, {first});")
            address = tile.address(_moved(start, steps))
            ctx.writer.line(f"tp_stmatrix{found.suffix}({address}, {packed});")
    ctx.writer.close("}")
    if narrows:
        ctx.headers.add("memory.cuh")
    return True


def _loaded(ctx: Context, op: ir.Copy, target: FragmentBuffer) -> bool:
    """Whether ldmatrix does it, which it then did."""
    if op.source.dtype != op.target.dtype:
        return False
    match = _match(ctx, op.target, op.source, target)
    if match is None:
        return False
    found, tile = match
    ctx.headers.add("matrix.cuh")
    with ctx.writer.braces(""), ctx.scope():
        start = _first_row(ctx, found)
        with loops(ctx, found.runs) as (number, steps):
            packed = ctx.names.fresh("packed")
            ctx.writer.line(f"uint32_t {packed}[{found.at_once}];")
            address = tile.address(_moved(start, steps))
            ctx.writer.line(f"tp_ldmatrix{found.suffix}({packed}, {address});")
            first = at(target.array, times(4 // op.target.dtype.bytes, number))
            ctx.writer.line(f"tp_from_words<{found.at_once}>({first}, {packed});")
    return True


def _first_row(ctx: Context, found: Matrices) -> list[Extent]:
    """Names for the coordinates of the row of which the lane gives the address."""
    start = thread_coordinates(found.lanes)
    names = [ctx.names.fresh("at") if isinstance(each, str) else "" for each in start]
    shown = [f"{name} = {each}" for name, each in zip(names, start) if name]
    ctx.writer.line(f"const int {', '.join(shown)};")
    return [name or each for name, each in zip(names, start)]


def _moved(start: list[Extent], steps: list[Extent]) -> list[Extent]:
    return [plus(s, t) for s, t in zip(start, steps or [0] * len(start))]


def _match(
    ctx: Context, fragment: ir.Value, shared: ir.Value, held: FragmentBuffer
) -> tuple[Matrices, SharedTile] | None:
    """The fragment as matrices of the tile in shared memory."""
    if isinstance(fragment.owner, ir.View):
        layout = _part(held.layout, shared.buffer.static_shape)
    else:
        layout = _squeezed(held.layout, shared.buffer.static_shape)
        if layout.registers_per_thread != held.layout.registers_per_thread:
            return None
    found = find_matrices(layout, shared.dtype)
    tile = shared_tile(ctx, shared)
    return (found, tile) if found is not None and tile.aligned else None


def _part(layout: RegisterLayout, shape: tuple[int, ...]) -> RegisterLayout:
    """The layout of some neighbouring columns: steps that leave them are not counted, which are
    those of the last digits of the register's number."""
    inner = []
    for digit in layout.registers:
        step = digit.step[-1]
        radix = min(digit.radix, shape[-1] // step) if step else digit.radix
        inner += [digit._replace(radix=radix)] if radix > 1 else []
    return RegisterLayout.make(shape, inner, layout.lanes, layout.warps)


def _part_start(fragment: ir.Value, held: FragmentBuffer) -> int:
    """The register with which a part of a fragment begins."""
    view = fragment.owner
    if not isinstance(view, ir.View):
        return 0
    start = view.offsets[-1].owner
    assert isinstance(start, ir.Constant), start
    part = _part(held.layout, view.sizes)
    return int(start.value) // view.sizes[-1] * part.registers_per_thread


def _squeezed(layout: RegisterLayout, shape: tuple[int, ...]) -> RegisterLayout:
    """The layout under a shape that differs in extents of 1."""
    kept = iter([d for d, extent in enumerate(layout.shape) if extent != 1])
    return layout.select([None if extent == 1 else next(kept) for extent in shape], shape)


def _elementwise(ctx: Context, op: ir.Copy, emit_block: EmitBlock) -> None:
    fragment = op.target if op.source.buffer.space == "shared" else op.source
    held = ctx.fragment(fragment)
    emit_as_parallel(ctx, op, emit_block, str(squeezed(held.layout, fragment)))


def squeezed(layout: RegisterLayout, fragment: ir.Value) -> RegisterLayout:
    """The layout of a fragment for a loop over its elements, which has no extents of 1."""
    return _squeezed(layout, tuple(int(d) for d in ir.squeeze(fragment)) or (1,))
