"""Accesses outside of parallel loops that one thread of a block makes.

In: the body of a launch.  Out: ops.  The rule is that of `emit.access`: what all threads can see is
changed by the first of them.  What one such statement alone needs is computed there, too: the text
has it in the statement, or NVRTC moves it behind the branch.  A load that is guarded stays with all
threads: its answer is one of two, which NVRTC chooses in front of the branch.  So do the indices of
an access that is not proved inside, because all threads note one that is negative.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.codegen.inlining import flat

_CHANGES = ir.Effect.WRITE | ir.Effect.CONTROL


def by_one_thread(body: ir.Block) -> set[ir.OpBase]:
    """Return the stores and atomics outside of parallel loops that change shared or global memory,
    and the ops whose results only one of them uses."""
    found: set[ir.OpBase] = set()
    _add(body, ir.users(ir.walk(body)), found)
    return found


def _add(block: ir.Block, uses: dict[ir.Value, list[ir.OpBase]], found: set[ir.OpBase]) -> None:
    ops = flat(block)
    statements: dict[ir.OpBase, int] = {}
    """Position of the statement that alone needs an op."""
    checked: set[ir.Value] = set()
    """Indices that all threads compare with bounds."""
    for at in reversed(range(len(ops))):
        op = ops[at]
        match op:
            case ir.Store() | ir.Atomic() if op.buffer.buffer.space in ("shared", "global"):
                statements[op] = at
                checked.update(checked_indices(op))
            case ir.Parallel():
                pass
            case ir.Load() if checked_indices(op) and op.buffer.buffer.space != "fragment":
                checked.update(op.indices)
            case _ if not checked.isdisjoint(op.results):
                checked.update(op.operand_values())
            case _ if is_pure(op) or isinstance(op, ir.Load):
                users = uses.get(op.result, [])
                places = {statements.get(each) for each in users}
                place = places.pop() if len(places) == 1 else None
                if place is not None and (is_pure(op) or _stays(ops[at + 1 : place])):
                    statements[op] = place
            case _:
                for each in op.blocks():
                    _add(each, uses, found)
    found.update(statements)


def checked_indices(op: ir.Load | ir.Store | ir.Atomic) -> list[ir.Value]:
    """Return the indices of an access that the text compares with bounds."""
    proved = op.in_bounds or all(isinstance(each.owner, ir.Constant) for each in op.indices)
    return [] if proved else list(op.indices)


def _stays(between: list[ir.OpBase]) -> bool:
    """Return whether memory stays as it is over some ops."""
    return not any(op.SPEC.effect & _CHANGES for op in between)


def kept_by_barriers(ops: set[ir.OpBase], lowered: ir.Kernel) -> set[ir.OpBase]:
    """Return the loads among some ops of one thread that all threads make after all, because the
    kernel after all passes has a barrier between them and what needs them."""
    alone: set[tuple[object, str]] = set()
    others: set[tuple[object, str]] = set()
    for launch in lowered.launches():
        found = by_one_thread(launch.body)
        for op in ir.walk(launch.body):
            if isinstance(op, ir.Load):
                (alone if op in found else others).add((op.span, op.buffer.name))
    return {
        op for op in ops if isinstance(op, ir.Load) and (op.span, op.buffer.name) in others - alone
    }
