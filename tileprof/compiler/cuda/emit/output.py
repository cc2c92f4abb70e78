"""What a kernel says to the host: prints and assertions, through the report."""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.places import Place
from tileprof.compiler.codegen.types import value_type

from .context import Context

__all__ = ["emit_assert", "emit_print"]


def emit_assert(ctx: Context, op: ir.Assert) -> None:
    """Stop the launch where the condition does not hold."""
    ctx.fail_unless(ctx.bare(op.condition), Place("assert", op.span, op.message), [])


def emit_print(ctx: Context, op: ir.Print) -> None:
    """A message with a scalar, or with the elements of a whole buffer."""
    ctx.headers.add("report.cuh")
    ctx.writes_report[0] = True
    if op.value is not None and isinstance(op.value.type, ir.BufferType):
        raise NotImplementedError
    dtype = None if op.value is None else op.value.dtype
    number = ctx.place(Place("print", op.span, op.message, dtype=dtype))
    point = "".join(f", {text}" for _, text in ctx.point)
    value = "false" if op.value is None else f"({value_type(op.value.dtype)})({ctx.bare(op.value)})"
    alone = "tp_thread == 0" if ctx.points is None else ctx.points.leader
    text = f"tp_print(report, {number}, {value}{point});"
    ctx.writer.line(f"if ({alone}) {text}" if alone else text)
