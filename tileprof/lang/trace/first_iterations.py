"""Tiles that the first iteration of a loop fills, filled before the loop.

    for k in range(n):                            T.clear(c)
        …                                   ⇒     for k in range(n):
        T.gemm(a, b, c, clear_accum=k == 0)           …
                                                      T.gemm(a, b, c)

In: the body of a launch.  Out: the same body, changed in place.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.ir.memory import base


def filled_before(block: ir.Block) -> None:
    """Take what only a first iteration fills out of the loops of a block."""
    made: list[ir.OpBase] = []
    for op in block.ops:
        for inner in op.blocks():
            filled_before(inner)
        if isinstance(op, ir.For):
            made += _taken_out(op)
        made.append(op)
    block.ops[:] = made


def _taken_out(loop: ir.For) -> list[ir.OpBase]:
    """Take the fills of the first iteration out of a loop, and return them for the place before."""
    found: list[ir.OpBase] = []
    touched: set[ir.Value] = set()
    for op in list(loop.body.ops):
        if isinstance(op, ir.If) and _is_first(op, loop) and _only_fills(op, loop, touched):
            loop.body.ops.remove(op)
            found += _where_any(loop, op)
        touched |= {base(a.value) for a in op.all_accesses()}
    return found


def _is_first(op: ir.If, loop: ir.For) -> bool:
    """Return whether a branch is taken in the first iteration of a loop and in no other."""
    compared = op.condition.owner
    (number,) = loop.body.args
    if not isinstance(compared, ir.Compare) or compared.kind != "eq":
        return False
    step = loop.step.owner
    if not isinstance(step, ir.Constant) or step.value < 1:
        return False
    if isinstance(last := loop.body.ops[-1], ir.Yield) and last.values:
        return False  # the number of the next iteration is computed
    return any(
        a is number and _same(b, loop.start)
        for a, b in ((compared.left, compared.right), (compared.right, compared.left))
    )


def _same(a: ir.Value, b: ir.Value) -> bool:
    one, other = a.owner, b.owner
    both = isinstance(one, ir.Constant) and isinstance(other, ir.Constant)
    return a is b or (both and one.value == other.value)  # type: ignore[union-attr]


def _only_fills(op: ir.If, loop: ir.For, touched: set[ir.Value]) -> bool:
    """Return whether all that a branch does is to fill tiles that are the same in each iteration,
    and that nothing has touched before in the iteration."""
    inside = {value for each in ir.walk(loop.body) for value in each.results}
    fills = [each for each in op.then.ops if not isinstance(each, ir.Constant)]
    return bool(fills) and not op.otherwise.ops and not op.results and all(
        isinstance(each, ir.Fill)
        and isinstance(each.target.owner, ir.Alloc)
        and isinstance(each.value.owner, ir.Constant)
        and each.target not in inside
        and each.target not in touched
        for each in fills
    )  # fmt: skip


def _where_any(loop: ir.For, op: ir.If) -> list[ir.OpBase]:
    """Return the fills of a branch, where the loop has a first iteration."""
    fills: list[ir.OpBase] = []
    for each in op.then.ops:
        if isinstance(each, ir.Fill) and isinstance(each.value.owner, ir.Constant):
            value = ir.Constant(each.value.owner.value, each.value.dtype, span=op.span)
            fills += [value, ir.Fill(each.target, value.result, span=each.span)]
    numbers = loop.static_range
    if numbers is not None:
        return fills if numbers else []
    some = ir.Compare("lt", loop.start, loop.stop, span=op.span)
    return [some, ir.If(some.result, ir.Block(ops=fills), ir.Block(), span=op.span)]
