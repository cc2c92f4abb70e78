"""Loops that end by a condition, and branches: the same text for a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tileprof import ir

from .values import Values

Emission = TypeVar("Emission", bound=Values)


def emit_while(ctx: Emission, op: ir.While, body: Callable[[Emission, ir.Block], None]) -> None:
    """`while (true)` with a `break`; `body` emits a block."""
    with ctx.writer.braces("while (true)"), ctx.scope():
        body(ctx, op.condition)
        last = op.condition.ops[-1]
        assert isinstance(last, ir.Yield)
        ctx.writer.line(f"if (!{ctx.text(last.values[0])}) break;")
        body(ctx, op.body)


def emit_if(ctx: Emission, op: ir.If, body: Callable[[Emission, ir.Block], None]) -> None:
    """`if` with its `else` where that does something; results are variables declared before it."""
    for value in op.results:
        name = ctx.names.fresh(value.name)
        ctx.values[value] = name
        ctx.writer.line(f"{ctx.type_of(value)} {name};")
    ctx.writer.line(f"if ({ctx.bare(op.condition)}) {{")
    with ctx.writer.deeper(), ctx.scope():
        _branch(ctx, op, op.then, body)
    if any(not isinstance(o, ir.Yield) or o.values for o in op.otherwise.ops):
        ctx.writer.close("} else {")
        with ctx.writer.deeper(), ctx.scope():
            _branch(ctx, op, op.otherwise, body)
    ctx.writer.close("}")


def _branch(
    ctx: Emission, op: ir.If, block: ir.Block, body: Callable[[Emission, ir.Block], None]
) -> None:
    body(ctx, block)
    last = block.ops[-1] if block.ops else None
    if isinstance(last, ir.Yield):
        for value, given in zip(op.results, last.values, strict=True):
            ctx.writer.line(f"{ctx.values[value]} = {ctx.bare(given)};")
