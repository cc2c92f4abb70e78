"""Whether what a fragment becomes is linear in what it is.

    %x = load %total, [%i]
    %y = mul %x, %factor            %factor does not depend on %total
    store %y, %total, [%i]

In: an op and a fragment.  Out: the first op in it that takes the fragment for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from tileprof import ir
from tileprof.ir.memory import base


def is_own_sum(op: ir.OpBase, fragment: ir.Value) -> TypeGuard[ir.Reduce]:
    """Whether an op adds up another fragment into this one."""
    return (
        isinstance(op, ir.Reduce)
        and op.kind in ("sum", "abssum")
        and op.target is fragment
        and base(op.source) is not fragment
    )


def uses(op: ir.OpBase, fragment: ir.Value) -> bool:
    """Whether an op, or one inside of it, accesses the fragment."""
    return any(base(t.value) is fragment for t in op.all_accesses())


def other_use(
    op: ir.OpBase, fragment: ir.Value, adds: Callable[[ir.OpBase], bool]
) -> ir.OpBase | None:
    """The first op, of an op and those inside of it, that uses the fragment other than to scale it,
    to set it to 0, or as `adds` allows, or that leaves the op for elsewhere; None where there is
    none."""
    match op:
        case ir.Parallel():
            return _unscaled(op, fragment)
        case ir.Break() | ir.Continue():
            return op
        case _ if any(base(t.value) is fragment for t in op.accesses()) and not adds(op):
            return op
    for inner in (o for b in op.blocks() for o in b.ops):
        found = other_use(inner, fragment, adds)
        stays = isinstance(found, ir.Break | ir.Continue) and isinstance(op, ir.For | ir.While)
        if found is not None and not stays:
            return found
    return None


def _unscaled(loop: ir.Parallel, fragment: ir.Value) -> ir.OpBase | None:
    """The first op of a loop that does other than scale its elements of the fragment."""
    linear: set[ir.Value] = set()
    for op in ir.walk(loop.body):
        match op:
            case ir.Load(buffer=buffer) if buffer is fragment and _is_own(loop, op.indices):
                linear.add(op.result)
            case ir.Store(buffer=buffer) if buffer is fragment and _is_own(loop, op.indices):
                if op.value not in linear and ir.constant_of(op.value) != 0:
                    return op
            case ir.Binary(kind="mul") if (op.left in linear) != (op.right in linear):
                linear.add(op.result)
            case _:
                used = any(v in linear for v in op.operand_values())
                if used or any(base(t.value) is fragment for t in op.accesses()):
                    return op
    return None


def _is_own(loop: ir.Parallel, indices: Sequence[ir.Value]) -> bool:
    """Whether each point of a loop has an element of its own at these indices."""
    pairs = zip(loop.body.args, loop.extents, strict=True)
    variables = {variable for variable, extent in pairs if ir.constant_of(extent) != 1}
    used = [i for i in indices if not isinstance(i.owner, ir.Constant)]
    return variables <= set(used) <= set(loop.body.args)


def clears(loop: ir.Parallel, fragment: ir.Value) -> bool:
    """Whether a loop sets all of the fragment to 0."""
    inside = ir.walk(loop.body)
    found = [o for o in inside if any(base(t.value) is fragment for t in o.accesses())]
    return all(isinstance(o, ir.Store) and ir.constant_of(o.value) == 0 for o in found) and any(
        isinstance(o, ir.Store) and covers(loop, o) for o in found
    )


def covers(loop: ir.Parallel, store: ir.Store) -> bool:
    """Whether a store of a loop reaches each element of its buffer, whatever the loop meets."""
    if any(isinstance(o, ir.Continue) for o in ir.walk(loop.body)):
        return False
    extents = dict(zip(loop.body.args, loop.extents, strict=True))
    shape = store.buffer.buffer.shape
    indices = [i for i, extent in zip(store.indices, shape, strict=True) if extent != 1]
    whole = [e for e in shape if e != 1]
    return (
        store in loop.body.ops
        and len(set(indices)) == len(indices)
        and all(i in extents for i in indices)
        and [ir.constant_of(extents[i]) for i in indices] == whole
    )
