"""Loops over points that fill a tile of shared memory, which the compiler makes cp.async of.

In: a kernel in the form that the compiler gave its loops, and the one after all passes.  Out: the
loads and stores of such loops, and the loads that their addresses need.
"""

from __future__ import annotations

from collections import Counter

from tileprof import ir
from tileprof.compiler.cuda.emit.loops.in_flight import iterations_of
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base


def gathers(program: ir.Kernel, lowered: ir.Kernel | None) -> set[ir.OpBase]:
    """Return loads of global memory, and the stores of what they give, of which `lowered` has a
    cp.async at the same place."""
    if lowered is None:
        return set()
    copies = {
        (each.span, base(each.source).name)
        for loop in lowered.ops()
        if isinstance(loop, ir.Parallel)
        for each in ir.walk(loop.body)
        if isinstance(each, ir.AsyncCopy) and isinstance(each.lowering, CpAsync)
    }
    found: set[ir.OpBase] = set()
    for op in program.ops():
        load = op.value.owner if isinstance(op, ir.Store) else None
        if isinstance(load, ir.Load) and (load.span, base(load.buffer).name) in copies:
            found |= {op, load}
    return found


def address_loads(
    program: ir.Kernel, lowered: ir.Kernel | None, gathers: set[ir.OpBase]
) -> dict[ir.OpBase, tuple[int, int]]:
    """Return loads of global memory in pipelined loops with gathers that `lowered` makes some
    iterations ahead; the last iteration, and how often its load is made: in each text that is left
    when the loop ends, because nothing waits for a branch."""
    if lowered is None:
        return {}
    texts = Counter(
        (op.span, base(op.buffer).name) for op in lowered.ops() if isinstance(op, ir.Load)
    )
    found: dict[ir.OpBase, tuple[int, int]] = {}
    for loop in program.ops():
        if not isinstance(loop, ir.For) or not loop.num_stages or not iterations_of(loop):
            continue
        for gather in ir.walk(loop.body):
            inside = set(ir.walk(gather.body)) if isinstance(gather, ir.Parallel) else set()
            for op in inside - gathers if inside & gathers else ():
                if isinstance(op, ir.Load) and op.buffer.buffer.space == "global":
                    last = len(iterations_of(loop) or ()) - 1
                    found[op] = last, texts[op.span, base(op.buffer).name]
    return found
