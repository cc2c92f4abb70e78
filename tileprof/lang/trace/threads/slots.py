"""Loads of a role run ahead by the compiler: slots that the author counts become stages of a loop.

    A_shared = T.alloc_shared((2, M, K), …)      A_shared = T.alloc_shared((M, K), …)
    for k in range(n):                       ⇒   for k in T.Pipelined(n, num_stages=2):
        T.copy(A[…], A_shared[k % 2, :, :])          T.copy(A[…], A_shared)

An iteration that writes its slot before it reads it needs nothing of another iteration, so one tile
is enough, and the compiler gives it as many slots as it sees fit.

In: the body of a launch whose barriers were checked, and its loops around loads of a role.  Out:
these loops as pipelined ones, in place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tileprof import ir
from tileprof.ir.builder import Builder
from tileprof.ir.memory import base
from tileprof.ir.rewriter import rebuilt

from .barriers import is_mark

_STAGES = 2
"""Stages at least of a loop whose loads a role does: one that loads, one that is used."""


def run_ahead(
    body: ir.Block, loops: Collection[ir.Block], numbers: Mapping[ir.Value, int],
    slots: Mapping[ir.Block, set[ir.Value]] | None = None,
) -> ir.Block:  # fmt: skip
    """Return the body of a launch without marks of barriers, the loops with these bodies pipelined
    and slots taken out of their buffers.

    `slots` has the buffers of which each iteration of a loop was seen to fill one slot and to use
    no other.
    """
    joined: set[ir.Value] = set()
    stages: dict[ir.OpBase, int] = {}
    for loop in ir.walk(body):
        if isinstance(loop, ir.For) and loop.body in loops:
            found = _with_slots(body, loop, numbers, (slots or {}).get(loop.body, set()))
            joined |= {op.result for op in found}
            stages[loop] = max(loop.num_stages, _STAGES, *(op.shape[0] for op in found))

    def rule(old: ir.OpBase, op: ir.OpBase, builder: Builder) -> Sequence[ir.Value] | None:
        if is_mark(old):
            return []
        if old in stages and isinstance(op, ir.For):
            bounds = op.start, op.stop, op.step
            builder.emit(ir.For("pipelined", *bounds, op.body, stages[old], op.hints))
            return []
        if isinstance(op, ir.Alloc) and old.result in joined:
            one = ir.Alloc(op.space, op.shape[1:], op.dtype, op.layout, hint=op.hint)
            one.result.name = op.result.name
            return builder.emit(one).results
        if isinstance(op, ir.View) and isinstance(old, ir.View) and old.base in joined:
            offsets, sizes = op.offsets[1:], op.sizes[1:]
            if sizes == op.base.buffer.shape and all(map(_is_zero, offsets)):
                return [op.base]
            return builder.emit(ir.View(op.base, offsets, sizes, hint=op.hint)).results
        return None

    return rebuilt(body, {}, rule)


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value.owner, ir.Constant) and value.owner.value == 0


def _with_slots(
    body: ir.Block, loop: ir.For, numbers: Mapping[ir.Value, int], seen: set[ir.Value]
) -> list[ir.Alloc]:
    """Return the buffers with slots of which each iteration of a loop uses one."""
    inside = set(ir.walk(loop.body))
    found = []
    for op in ir.walk(body):
        if isinstance(op, ir.Alloc) and op.space == "shared" and len(op.shape) > 1:
            uses = _uses(body, op.result)
            known = op.result in seen or _one_slot(loop, op, uses, numbers)
            if uses and inside.issuperset(uses) and known:
                found.append(op)
    return found


def _uses(body: ir.Block, buffer: ir.Value) -> list[ir.OpBase]:
    return [
        op for op in ir.walk(body)
        if buffer in op.operand_values() and not isinstance(op, ir.Annotate)
    ]  # fmt: skip


def _one_slot(
    loop: ir.For, op: ir.Alloc, uses: Sequence[ir.OpBase], numbers: Mapping[ir.Value, int]
) -> bool:
    """Return whether each iteration uses the slot `x % n` alone, and writes all of it first."""
    first = uses[0]
    if not isinstance(first, ir.View) or not all(isinstance(u, ir.View) for u in uses):
        return False
    views = [u for u in uses if isinstance(u, ir.View)]
    slot = first.offsets[0].owner
    count = slot.right.owner if isinstance(slot, ir.Binary) and slot.kind == "floormod" else None
    return (
        isinstance(count, ir.Constant)
        and 0 < count.value <= op.shape[0]
        and all(v.sizes[0] == 1 and _equal(v.offsets[0], first.offsets[0]) for v in views)
        and _first_writes(loop.body, op, numbers)
    )


def _first_writes(block: ir.Block, op: ir.Alloc, numbers: Mapping[ir.Value, int]) -> bool:
    """Return whether the first access of a buffer in an iteration is a copy to a whole slot that
    every iteration does."""
    for each in block.ops:
        touched = {base(a.value) for a in each.all_accesses()}
        if op.result not in touched:
            continue
        if isinstance(each, ir.If) and not each.results and _of_threads(each.condition, numbers):
            other = {base(a.value) for o in each.otherwise.ops for a in o.all_accesses()}
            return op.result not in other and _first_writes(each.then, op, numbers)
        if not isinstance(each, ir.Copy) or base(each.source) is op.result:
            return False
        view = each.target.owner
        return isinstance(view, ir.View) and view.sizes == (1, *op.shape[1:])
    return False


def _of_threads(value: ir.Value, numbers: Mapping[ir.Value, int]) -> bool:
    """Return whether a value follows from constants and numbers of threads."""
    if value in numbers:
        return True
    owner = value.owner
    return isinstance(owner, ir.ScalarOp) and all(
        _of_threads(v, numbers) for v in owner.operand_values()
    )


def _equal(a: ir.Value, b: ir.Value) -> bool:
    """Return whether two values are computed in one way from the same values."""
    if a is b:
        return True
    one, other = a.owner, b.owner
    if not isinstance(one, ir.ScalarOp) or type(one) is not type(other) or other is None:
        return False
    if isinstance(one, ir.Constant):
        return isinstance(other, ir.Constant) and one.value == other.value and a.type == b.type
    mine, its = list(one.operand_values()), list(other.operand_values())
    return (
        a.type == b.type
        and getattr(one, "kind", None) == getattr(other, "kind", None)
        and len(mine) == len(its)
        and all(map(_equal, mine, its))
    )
