"""Loops and branches with products of warp groups: what they add up, and whether they wait.

In: ops before or after the pass has put waits into them.  Out: answers.
"""

from __future__ import annotations

from typing import TypeGuard

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.ir.memory import base


def starts(block: ir.Block) -> set[ir.OpBase]:
    """The ops of a block that write an accumulator which is next used by a product of warp groups
    that adds to it."""
    found: set[ir.OpBase] = set()
    sums: set[ir.Value] = set()
    for op in reversed(block.ops):
        if is_of_warp_groups(op):
            sums.add(base(op.c))
            continue
        if not sums:
            continue
        used = {base(t.value) for t in op.all_accesses()}
        if any(t.writes and base(t.value) in sums for t in op.all_accesses()):
            found.add(op)
        sums -= used
    return found


def may_not_run(loop: ir.OpBase) -> TypeGuard[ir.For]:
    """Whether it is not known that a loop which counts up has an iteration."""
    if not isinstance(loop, ir.For) or loop.results:
        return False
    trips, step = loop.static_range, loop.step.owner
    if not isinstance(step, ir.Constant) or int(step.value) <= 0:
        return False
    return trips is None or len(trips) == 0


def sums_in(op: ir.OpBase) -> set[ir.Value]:
    """The accumulators of products of warp groups inside of an op."""
    inside = op.inner_ops()
    return {base(o.c) for o in inside if isinstance(o, ir.Gemm) and is_of_warp_groups(o)}


def uses_earlier(loop: ir.OpBase) -> bool:
    """Whether an iteration waits for a sum of the one before, with a product of its own running."""
    begun: set[ir.Value] = set()
    for op in (o for block in loop.blocks() for o in block.ops):
        match op:
            case ir.AsyncGemm(c=sums):
                begun.add(base(sums))
            case ir.Wait(queue="wgmma", pending=pending) if pending and begun:
                if any(base(value) not in begun for value in op.held):
                    return True
    return False


def first_wait(op: ir.OpBase) -> bool | None:
    """Whether a loop, or a branch, waits for all products before it starts one or does other work;
    None where it does none of that."""
    ways = [_first_in(block) for block in op.blocks()]
    if all(way is True for way in ways):
        return True
    return None if all(way is None for way in ways) else False


def _first_in(block: ir.Block) -> bool | None:
    """Answer `first_wait` for the ops of a block."""
    for op in block.ops:
        match op:
            case ir.Wait(queue="wgmma", pending=pending):
                return pending == 0
            case ir.AsyncGemm() | ir.Break() | ir.Continue():
                return False
            case ir.Parallel() | ir.ConvertLayout() | ir.AllReduce():
                return False  # it runs beside the products
            case _ if isinstance(op, ir.TileOp):
                return False
            case ir.For() | ir.While() if any(isinstance(o, ir.AsyncGemm) for o in op.inner_ops()):
                return False
            case ir.If() if (found := first_wait(op)) is not None:
                return found
    return None
