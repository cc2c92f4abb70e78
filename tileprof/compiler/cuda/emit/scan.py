"""Scans of shared tiles: a thread for each line where there are many, all warps for each where
there are few and long ones, else a warp.

for (int line = tp_warp; line < 8; line += 4) {          // a warp: 32 elements at a time
  float carry = 0.0f;
  for (int base = 0; base < 1024; base += 32) {
    float sum = …element base + tp_lane…;
    for (int by = 1; by < 32; by *= 2) {
      const float before = tp_shuffle_up(sum, by);
      if (tp_lane >= by) sum = before + sum;
    }
    …

Warps that share a line add up their parts first; each then begins with the sum of those before it.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent
from tileprof.compiler.codegen.expressions import bare
from tileprof.compiler.codegen.types import is_narrow, storage, stored, value_type
from tileprof.compiler.cuda.layouts.exchange import has_thread_lines, working_type
from tileprof.errors import InternalError

from .buffers import SharedBuffer
from .context import Context
from .reduce import joined


def emit_scan(ctx: Context, op: ir.Scan) -> None:
    """An inclusive scan of a shared tile, or of a ring's slot, into a shared tile, perhaps the
    same."""
    shape = op.target.buffer.static_shape
    length, lines = shape[op.dim], 1
    for d, extent in enumerate(shape):
        lines *= 1 if d == op.dim else extent
    with ctx.names.scope():
        line = ctx.names.fresh("line")
        if op.scratch is not None:
            with ctx.writer.braces(f"for (int {line} = 0; {line} < {lines}; ++{line})"):
                _block_line(ctx, op, line, length)
            return
        alone = has_thread_lines(lines, length, ctx.threads)
        start, step = ("tp_thread", ctx.threads) if alone else ("tp_warp", ctx.threads // 32)
        head = f"for (int {line} = {start}; {line} < {lines}; {line} += {max(step, 1)})"
        with ctx.writer.braces(head):
            if alone:
                _thread_line(ctx, op, line, length)
            else:
                _warp_line(ctx, op, line, length)


def _join(op: ir.Scan, dtype: ir.DType, left: str, right: str) -> str:
    return bare(joined(op.kind, dtype, left, right))


def _thread_line(ctx: Context, op: ir.Scan, line: str, length: int) -> None:
    working = working_type(op.source.dtype, op.target.dtype)
    total, number, x = (ctx.names.fresh(n) for n in ("total", "n", "x"))
    writer, type_ = ctx.writer, value_type(working)
    writer.line(f"{type_} {total} = 0;")
    with writer.braces(f"for (int {number} = 0; {number} < {length}; ++{number})"):
        at = f"{length - 1} - {number}" if op.reverse else number
        writer.line(f"const {type_} {x} = {_element(ctx, op, line, at, working)};")
        writer.line(f"{total} = {number} == 0 ? {x} : {_join(op, working, total, x)};")
        _store(ctx, op, line, at, working, total)


def _block_line(ctx: Context, op: ir.Scan, line: str, length: int) -> None:
    """Each warp has a part of the line: `part` elements, fewer or none at the end."""
    ctx.headers.add("shuffle.cuh")
    assert op.scratch is not None
    working = working_type(op.source.dtype, op.target.dtype)
    warps, type_, writer = ctx.threads // 32, value_type(working), ctx.writer
    part = -(-length // (32 * warps)) * 32
    begin, parts, carry, w = (ctx.names.fresh(n) for n in ("begin", "parts", "carry", "w"))
    writer.line(f"const int {begin} = tp_warp * {part};")
    # Alternately: warps that still read those of one line meet others at the barrier of the next.
    memory = f"({type_} *){ctx.shared(op.scratch).pointer}"
    writer.line(f"{type_} *const {parts} = {memory} + ({line} & 1) * {warps};")
    with writer.braces(f"if ({begin} + {part} < {length})"), ctx.names.scope():
        _part(ctx, op, line, length, begin, part, parts)
    writer.line(ctx.barrier())
    with writer.braces(f"if ({begin} < {length})"), ctx.names.scope():
        writer.line(f"{type_} {carry} = 0;")
        joined = _join(op, working, carry, f"{parts}[{w}]")
        head = f"for (int {w} = 0; {w} < tp_warp; ++{w})"
        writer.line(f"{head} {carry} = {w} == 0 ? {parts}[0] : {joined};")
        last = f"{begin} + {part}"
        end = last if length % part == 0 else f"tp_min({last}, {length})"
        _warp_elements(ctx, op, line, length, carry, begin, end)


def _part(
    ctx: Context, op: ir.Scan, line: str, length: int, begin: str, part: int, parts: str
) -> None:
    """Write what all elements of the warp's part are together, for the warps behind it."""
    working = working_type(op.source.dtype, op.target.dtype)
    total, number, by = (ctx.names.fresh(n) for n in ("total", "n", "by"))
    writer = ctx.writer

    def element(at: str) -> str:
        return _element(ctx, op, line, f"{length - 1} - ({at})" if op.reverse else at, working)

    writer.line(f"{value_type(working)} {total} = {element(f'{begin} + tp_lane')};")
    step = f"{begin} + tp_lane + {number}"
    head = f"for (int {number} = 32; {number} < {part}; {number} += 32)"
    writer.line(f"{head} {total} = {_join(op, working, total, element(step))};")
    other = f"tp_shuffle_xor({total}, {by})"
    head = f"TP_UNROLL_ALL for (int {by} = 16; {by} > 0; {by} /= 2)"
    writer.line(f"{head} {total} = {_join(op, working, total, other)};")
    writer.line(f"if (tp_lane == 0) {parts}[tp_warp] = {total};")


def _warp_line(ctx: Context, op: ir.Scan, line: str, length: int) -> None:
    """A whole line by one warp."""
    ctx.headers.add("shuffle.cuh")
    working = working_type(op.source.dtype, op.target.dtype)
    carry = ctx.names.fresh("carry")
    ctx.writer.line(f"{value_type(working)} {carry} = 0;")
    _warp_elements(ctx, op, line, length, carry, "0", str(length))


def _warp_elements(
    ctx: Context, op: ir.Scan, line: str, length: int, carry: str, begin: str, end: str
) -> None:
    """32 elements at a time; `carry` is what those before `begin` are together."""
    working = working_type(op.source.dtype, op.target.dtype)
    first, total, by = (ctx.names.fresh(n) for n in ("base", "total", "by"))
    before, number = ctx.names.fresh("before"), ctx.names.fresh("n")
    writer, type_ = ctx.writer, value_type(working)
    inside = f"{number} < {length}"
    with writer.braces(f"for (int {first} = {begin}; {first} < {end}; {first} += 32)"):
        writer.line(f"const int {number} = {first} + tp_lane;")
        at = f"{length - 1} - {number}" if op.reverse else number
        element = _element(ctx, op, line, at, working)
        # What lies behind the end reaches no lane before it.
        whole = length % 32 == 0
        writer.line(f"{type_} {total} = {element if whole else f'{inside} ? {element} : 0'};")
        with writer.braces(f"TP_UNROLL_ALL for (int {by} = 1; {by} < 32; {by} *= 2)"):
            writer.line(f"const {type_} {before} = tp_shuffle_up({total}, {by});")
            writer.line(f"if (tp_lane >= {by}) {total} = {_join(op, working, before, total)};")
        writer.line(f"if ({first} > 0) {total} = {_join(op, working, carry, total)};")
        if whole:
            _store(ctx, op, line, at, working, total)
        else:
            with writer.braces(f"if ({inside})"):
                _store(ctx, op, line, at, working, total)
        writer.line(f"{carry} = tp_shuffle_index({total}, 31);")


def _indices(op: ir.Scan, line: str, at: str) -> list[Extent]:
    """The indices of element `at` of a line; lines are numbered along the last dimension first."""
    shape = op.target.buffer.static_shape
    found: list[Extent] = []
    rest, left = line, [e for d, e in enumerate(shape) if d != op.dim]
    for d in reversed(range(len(shape))):
        if d == op.dim:
            found.insert(0, at)
            continue
        extent = left.pop()
        if extent == 1:
            found.insert(0, 0)
        elif all(e == 1 for e in left):
            found.insert(0, rest)
        else:
            found.insert(0, f"{rest} % {extent}")
            rest = f"({rest} / {extent})"
    return found


def _element(ctx: Context, op: ir.Scan, line: str, at: str, working: ir.DType) -> str:
    tile, indices = ctx.tile(op.source), _indices(op, line, at)
    held = tile.buffer
    if not isinstance(held, SharedBuffer):
        raise InternalError(f"{held.name} is scanned and not in shared memory")
    text = held.element([*tile.offsets[: len(held.shape) - len(indices)], *indices])
    if is_narrow(held.dtype):
        text = f"tp_value({text})"
    same = value_type(held.dtype) == value_type(working)
    return text if same else f"({value_type(working)}){text}"


def _store(ctx: Context, op: ir.Scan, line: str, at: str, working: ir.DType, value: str) -> None:
    held = ctx.shared(op.target)
    text = stored(value, held.dtype)
    if not is_narrow(held.dtype) and value_type(held.dtype) != value_type(working):
        text = f"({storage(held.dtype)})({value})"
    ctx.writer.line(f"{held.element(_indices(op, line, at))} = {text};")
