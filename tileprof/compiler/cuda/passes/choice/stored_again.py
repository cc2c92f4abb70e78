"""Copies that one iteration after the other makes to the same place of a tensor.

    for k                              for k
      copy %part, %C[0, 0]               copy %part, %C[k * 64, 0]
      (each over the one before)         (each to a place of its own)

Threads store in order; bulk stores of the same thread need not land in the order in which they were
started.  In: a launch.  Out: the copies to tensors whose place does not change with a loop around
them.  A place that changes with it is taken to be another each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.ir.memory import base


def stored_again(launch: ir.Launch) -> set[ir.OpBase]:
    """Return these copies."""
    return set(_stored_again(launch.body))


def _stored_again(block: ir.Block) -> Iterator[ir.Copy]:
    for op in block.ops:
        if _repeats(op):
            variables = {v for inner in op.blocks() for v in inner.args}
            copies = (o for o in op.inner_ops() if isinstance(o, ir.Copy))
            for copy in copies:
                far = base(copy.target).buffer.space == "global"
                if far and not _changes(copy.target, variables):
                    yield copy
        for inner in op.blocks():
            yield from _stored_again(inner)


def _repeats(op: ir.OpBase) -> bool:
    if not isinstance(op, ir.For):
        return isinstance(op, ir.While)
    trips = op.static_range
    return trips is None or len(trips) > 1


def _changes(value: ir.Value, variables: Set[ir.Value]) -> bool:
    """Whether a place follows from one of these variables, or from memory."""
    owner = value.owner
    if owner is None:
        return value in variables
    if not (is_pure(owner) or isinstance(owner, ir.View | ir.Reinterpret)):
        return True
    return any(_changes(each, variables) for each in owner.operand_values())
