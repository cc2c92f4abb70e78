"""Small kernels whose loads have any index, and what they access, one index after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from tileprof import ir

__all__ = ["SYMBOL", "accesses", "index_kernels"]

SYMBOL = "m"
KINDS = ["add", "sub", "mul", "floordiv", "floormod", "min", "max", "truncdiv", "and", "xor", "shl"]


@st.composite
def index_kernels(draw: st.DrawFn) -> ir.Kernel:
    """A launch, a loop, a parallel and a branch around loads whose index is any expression."""
    extent: ir.Dim = draw(st.just(SYMBOL) | st.sampled_from([4, 8, 9]))
    type_ = ir.BufferType((extent,), ir.dtype("float32"), "global")
    symbol = ir.BufferType((SYMBOL,), ir.dtype("float32"), "global")
    params = (ir.Param("x", type_), ir.Param("y", symbol))
    body = ir.Block([ir.Value(p.type, p.name) for p in params] + [ir.Value(ir.dtype("index"), "m")])
    builder = ir.Builder(body)
    values = [body.args[2], *(builder.constant(n) for n in (0, 1, 2, 3, 4))]

    def expression() -> ir.Value:
        kind: Any = draw(st.sampled_from(KINDS))
        left, right = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if kind in ("floordiv", "floormod", "truncdiv", "shl"):
            right = draw(st.sampled_from(values[2:6]))
        return builder.emit(ir.Binary(kind, left, right)).result

    def grow(most: int) -> None:
        for _ in range(draw(st.integers(0, most))):
            values.append(expression())

    def load() -> None:
        index = draw(st.sampled_from(values))
        builder.emit(ir.Print("v", builder.emit(ir.Load(body.args[0], [index])).result))

    grow(2)
    launch = ir.Block([ir.Value(ir.dtype("index"), "bx")])
    builder.emit(ir.Launch([draw(st.sampled_from(values))], (32,), launch))
    with builder.inside(launch):
        values += launch.args
        grow(2)
        inner = ir.Block([ir.Value(ir.dtype("index"), "i")])
        loop: ir.OpBase
        if draw(st.booleans()):
            loop = ir.Parallel([draw(st.sampled_from(values))], inner)
        else:
            step = builder.constant(draw(st.sampled_from([1, 2, 3, -1, -2])))
            ends = [draw(st.sampled_from(values)) for _ in range(2)]
            loop = ir.For("serial", ends[0], ends[1], step, inner)
        builder.emit(loop)
        with builder.inside(inner):
            values += inner.args
            grow(4)
            load()
            kind: Any = draw(st.sampled_from(["lt", "le", "ge", "eq", "ne"]))
            ends = [draw(st.sampled_from(values)) for _ in range(2)]
            condition = builder.emit(ir.Compare(kind, *ends)).result
            then, otherwise = ir.Block(), ir.Block()
            builder.emit(ir.If(condition, then, otherwise))
            for each in (then, otherwise):
                with builder.inside(each):
                    load()
    return ir.Kernel("k", params, (SYMBOL,), body)


def accesses(kernel: ir.Kernel, m: int) -> Iterator[tuple[ir.Load, int]]:
    """Every load that runs, with its index."""
    held: dict[ir.Value, Any] = {kernel.body.args[2]: m}
    yield from _run(kernel.body, held)


def _run(block: ir.Block, held: dict[ir.Value, Any]) -> Iterator[tuple[ir.Load, int]]:
    for op in block.ops:
        numbers: list[Any] = [held.get(v) for v in op.operand_values()]
        match op:
            case ir.Constant(value=value):
                held[op.result] = value
            case ir.Binary(kind=kind) | ir.Compare(kind=kind):
                held[op.result] = MEANING[kind](*numbers)
            case ir.Load(indices=[index]):
                yield op, held[index]
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                yield from _run(then if held[condition] else otherwise, held)
            case ir.Launch(body=body) | ir.Parallel(body=body) | ir.For(body=body):
                for at in range(*map(int, numbers)):
                    held[body.args[0]] = at
                    yield from _run(body, held)


MEANING: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: int(a / b),
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
