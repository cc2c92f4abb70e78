"""Loops over points that fill a tile of shared memory, which the compiler makes cp.async of.

In: a kernel in the form that the compiler gave its loops, and the one after all passes.  Out: the
loads and stores of such loops.
"""

from __future__ import annotations

from tileprof import ir
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
