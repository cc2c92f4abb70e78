"""Messages of a kernel to the host: prints and assertions, through the report.

The kernel writes numbers, the host writes the text: see `runtime/cuda/report.py`.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.codegen.places import Place
from tileprof.compiler.codegen.types import literal, stored, value_type
from tileprof.errors import InternalError

from .buffers import FragmentBuffer, GlobalBuffer
from .context import Context, Tile


def emit_assert(ctx: Context, op: ir.Assert) -> None:
    """Stop the launch where the condition does not hold."""
    ctx.fail_unless(ctx.bare(op.condition), Place("assert", op.span, op.message), [])


def emit_print(ctx: Context, op: ir.Print) -> None:
    """A message with a scalar, or with the elements of a whole buffer, from one thread."""
    ctx.headers.add("report.cuh")
    ctx.tells.add("report")
    alone = "tp_thread == 0" if ctx.points is None else ctx.points.leader
    if op.value is not None and isinstance(op.value.type, ir.BufferType):
        with ctx.writer.braces(f"if ({alone})" if alone else ""), ctx.scope():
            _buffer(ctx, op, op.value)
        return
    dtype = None if op.value is None else op.value.dtype
    number = ctx.place(Place("print", op.span, op.message, dtype=dtype))
    point = "".join(f", {text}" for _, text in ctx.point)
    value = "false" if op.value is None else f"({value_type(op.value.dtype)})({ctx.bare(op.value)})"
    text = f"tp_print(report, {number}, {value}{point});"
    ctx.writer.line(f"if ({alone}) {text}" if alone else text)


def _buffer(ctx: Context, op: ir.Print, value: ir.Value) -> None:
    """A word for each element, row by row."""
    tile = ctx.tile(value)
    shape = value.buffer.shape
    place = Place("print", op.span, op.message, tile.buffer.name, shape, dtype=value.dtype)
    count: Extent = 1
    for size in tile.sizes:
        count = times(count, size)
    words = ctx.names.fresh("words")
    ctx.writer.line(
        f"int64_t *{words} = tp_print_begin(report, {ctx.place(place)}, (int)({count}));"
    )
    with ctx.writer.braces(f"if ({words})"):
        _rows(ctx, tile, words, [])


def _rows(ctx: Context, tile: Tile, words: str, at: list[Extent]) -> None:
    dim = len(at)
    if dim < len(tile.sizes):
        name = ctx.names.fresh("ijklmn"[dim % 6])
        head = f"for (int {name} = 0; {name} < {tile.sizes[dim]}; ++{name})"
        with ctx.writer.braces(head):
            _rows(ctx, tile, words, [*at, plus(tile.offsets[dim], name)])
        return
    buffer = tile.buffer
    if isinstance(buffer, FragmentBuffer):
        raise InternalError(f"fragment {buffer.name} is printed where it is")
    text = buffer.element(at)
    if isinstance(buffer, GlobalBuffer):
        # What is outside of the tensor is printed as it would be read.
        pairs = zip(at, buffer.shape, tile.inside, strict=True)
        needed = [f"{i} < {paren(extent)}" for i, extent, inside in pairs if not inside]
        safe = stored(literal(buffer.safe, buffer.dtype), buffer.dtype)
        text = f"{' && '.join(needed)} ? {text} : {safe}" if needed else text
    ctx.writer.line(f"*{words}++ = tp_print_word({text});")
