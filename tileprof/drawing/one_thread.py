"""Accesses outside of parallel loops that one thread of a block makes.

In: the body of a launch.  Out: ops.  The rule is that of `emit.access`: what all threads can see is
changed by the first of them, and what it alone needs stands in its statement.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.inlining import flat, inlined


def by_one_thread(body: ir.Block) -> set[ir.OpBase]:
    """Return the stores and atomics outside of parallel loops that change shared or global memory,
    and the ops whose results only such statements use."""
    uses: dict[ir.Value, list[ir.OpBase]] = {}
    for op in ir.walk(body):
        for value in op.operand_values():
            uses.setdefault(value, []).append(op)
    found: set[ir.OpBase] = set()
    _add(body, uses, found)
    return found


def _add(block: ir.Block, uses: dict[ir.Value, list[ir.OpBase]], found: set[ir.OpBase]) -> None:
    ops = flat(block)
    unnamed = inlined(ops, uses)
    for op in reversed(ops):
        match op:
            case ir.Store() | ir.Atomic() if op.buffer.buffer.space in ("shared", "global"):
                found.add(op)
            case ir.Parallel():
                pass
            case _ if op in unnamed and found.issuperset(uses[op.result]):
                found.add(op)
            case _:
                for each in op.blocks():
                    _add(each, uses, found)
