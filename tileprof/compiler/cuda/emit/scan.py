"""Scans of shared tiles: a thread for each line where there are many, else a warp.

for (int line = tp_warp; line < 8; line += 4) {          // a warp: 32 elements at a time
  float carry = 0.0f;
  for (int base = 0; base < 1024; base += 32) {
    float sum = …element base + tp_lane…;
    for (int by = 1; by < 32; by *= 2) {
      const float before = tp_shuffle_up(sum, by);
      if (tp_lane >= by) sum = before + sum;
    }
    …
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent
from tileprof.compiler.codegen.types import is_narrow, storage, stored, value_type
from tileprof.compiler.cuda.layouts.exchange import working_type

from .buffers import SharedBuffer
from .context import Context

__all__ = ["emit_scan", "has_thread_lines"]

SHORT = 16
"""Elements of a line that a warp does not make faster."""


def has_thread_lines(lines: int, length: int, threads: int) -> bool:
    """Whether a thread works on a line alone."""
    return length <= SHORT or lines * 2 > threads


def emit_scan(ctx: Context, op: ir.Scan) -> None:
    """An inclusive scan of a shared tile into a shared tile, perhaps the same."""
    shape = op.source.buffer.static_shape
    length, lines = shape[op.dim], 1
    for d, extent in enumerate(shape):
        lines *= 1 if d == op.dim else extent
    alone = has_thread_lines(lines, length, ctx.threads)
    with ctx.names.scope():
        line = ctx.names.fresh("line")
        start, step = ("tp_thread", ctx.threads) if alone else ("tp_warp", ctx.threads // 32)
        head = f"for (int {line} = {start}; {line} < {lines}; {line} += {max(step, 1)})"
        with ctx.writer.braces(head):
            (_thread_line if alone else _warp_line)(ctx, op, line, length)


def _join(op: ir.Scan, dtype: ir.DType, left: str, right: str) -> str:
    if op.kind == "max":
        return f"tp_max{'' if dtype.is_float else f'<{value_type(dtype)}>'}({left}, {right})"
    return f"({value_type(dtype)})({left} + {right})" if dtype.bits < 32 else f"{left} + {right}"


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


def _warp_line(ctx: Context, op: ir.Scan, line: str, length: int) -> None:
    ctx.headers.add("shuffle.cuh")
    working = working_type(op.source.dtype, op.target.dtype)
    carry, first, total, by = (ctx.names.fresh(n) for n in ("carry", "base", "total", "by"))
    before, number = ctx.names.fresh("before"), ctx.names.fresh("n")
    writer, type_ = ctx.writer, value_type(working)
    inside = f"{number} < {length}"
    writer.line(f"{type_} {carry} = 0;")
    with writer.braces(f"for (int {first} = 0; {first} < {length}; {first} += 32)"):
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
    shape = op.source.buffer.static_shape
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
    held: SharedBuffer = ctx.shared(op.source)
    text = held.element(_indices(op, line, at))
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
