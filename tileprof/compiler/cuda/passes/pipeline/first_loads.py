"""Loads for the first addresses of a loop, which begin before the block waits for other loads.

    copy Q → q                               load of row numbers
    load of row numbers                      copy Q → q
    load of the rows, ahead          ⇒       load of the rows, ahead
    for k                                    for k

Threads that bring a tile by loads and stores wait for it where it stands, and what they ask for
behind it comes a whole latency later.  The rows stay: what threads load behind so many bytes might
come behind them (sparse_mla_topk_reducesum took 102 µs in place of 96 where rows began before the
query, on an H200, 2026-11-28).
In: the ops of a block up to a loop, those loads as the last ones.  Out: their order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base


def begun_early(
    before: Sequence[ir.OpBase], first: Sequence[ir.OpBase], written: Collection[ir.Value]
) -> tuple[list[ir.OpBase], ir.OpBase | None]:
    """Return the ops `before` and the `first` loads for a loop in the best order, and the op that
    these overtake, None where they stay; `written`: tensors that the launch writes."""
    needed = {v for op in first for v in op.all_operand_values()}
    # Variables, too, from which places are computed.
    touched = {base(t.value) for op in first for t in op.all_accesses() if not _is_global(t.value)}
    passed: list[ir.OpBase] = []
    at = len(before)
    while at:
        op = before[at - 1]
        if not needed.isdisjoint(op.results):
            if not _is_movable(op, written):
                break
            needed.update(op.all_operand_values())
        elif _may_be_passed(op) and touched.isdisjoint(base(t.value) for t in op.all_accesses()):
            passed.insert(0, op)
        else:
            break
        at -= 1
    waiting = next((i for i, op in enumerate(passed) if _reads_memory(op)), None)
    if waiting is None:
        return [*before, *first], None
    behind = passed[waiting:]
    return [*(op for op in before if op not in behind), *first, *behind], passed[waiting]


def _is_movable(op: ir.OpBase, written: Collection[ir.Value]) -> bool:
    """Whether an op gives the same wherever it stands."""
    if isinstance(op, ir.Load):
        held = base(op.buffer)
        return held.buffer.space == "global" and held not in written
    return is_pure(op) or isinstance(op, ir.View | ir.Alloc)


def _may_be_passed(op: ir.OpBase) -> bool:
    """Whether loads may begin before an op: it writes no tensor, and no thread waits for another
    in it."""
    match op:
        case ir.Copy(lowering=lowering):
            plain = lowering is None
        case ir.AsyncCopy(lowering=lowering):
            plain = isinstance(lowering, CpAsync)
        case _:
            plain = is_pure(op) or isinstance(
                op, ir.View | ir.Alloc | ir.Load | ir.Store | ir.Fill | ir.Parallel
            )
    inside = [*op.with_inner_ops()]
    alone = not any(o.SPEC.resource for o in inside) or isinstance(op, ir.AsyncCopy)
    return plain and alone and not any(t.writes and _is_global(t.value) for t in op.all_accesses())


def _reads_memory(op: ir.OpBase) -> bool:
    """Whether threads wait for a tensor's elements."""
    return not isinstance(op, ir.AsyncCopy) and any(
        t.reads and _is_global(t.value) for t in op.all_accesses()
    )


def _is_global(value: ir.Value) -> bool:
    return base(value).buffer.space == "global"
