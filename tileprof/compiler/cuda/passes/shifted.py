"""Loops over a part of a fragment, as loops over all of it with a condition.

    parallel [32, n] body(i, d)                     parallel [32, n] body(p, d)
      if i < 16                                       if p >= s · 16
        store (load F, [i + s · 16, d]), S, [i, d]      i = p - s · 16
                                            ⇒           if i < 16
                                                          store (load F, [p, d]), S, [i, d]

Which register holds an element must follow from the place in the loop alone.  Points that are
counted from the start of the fragment say so; those that are counted from the start of the part do
not, and the fragment would move to shared memory.
In: elementwise ops as `parallel`, without layouts.  Out: the same, with such loops shifted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewriter import clone, per_launch, rebuilt, with_originals


class _Shift(NamedTuple):
    """The dimension of a loop that is shifted, the indices that become its variable, the distance
    that is added there, and the extent of the fragment."""

    at: int
    places: tuple[ir.Value, ...]
    distance: ir.Value
    extent: int


Interval = tuple[int, int]
"""Least and greatest value."""


def shift_points(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Count points of loops over parts of fragments from the start of the fragment."""
    return per_launch(kernel, _shifted)


def _shifted(launch: ir.Launch) -> ir.Launch:
    found = dict(_search(launch.body, {}))
    if not found:
        return launch

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(old, ir.Parallel) and isinstance(new, ir.Parallel) and old in found:
            # Of the op as it was: its values are looked up by those before.
            builder.emit(_rebuilt(old, new, found[old], mapping, builder))
            return []
        return None

    mapping: dict[ir.Value, ir.Value] = {}
    return with_originals(launch, rule, mapping)


def _search(
    block: ir.Block, known: Mapping[ir.Value, Interval]
) -> Iterator[tuple[ir.Parallel, _Shift]]:
    """Yield the loops that are to be shifted; `known` has the variables of loops around."""
    for op in block.ops:
        if isinstance(op, ir.Parallel):
            shift = _shift(op, known)
            if shift is not None:
                yield op, shift
            continue
        inside = dict(known)
        if isinstance(op, ir.For):
            bounds = [_number(v) for v in (op.start, op.stop, op.step)]
            start, stop, step = (0 if n is None else n for n in bounds)
            if None not in bounds and step > 0 and stop > start:
                inside[op.body.args[0]] = (start, start + (stop - start - 1) // step * step)
        for inner in op.blocks():
            yield from _search(inner, inside)


def _number(value: ir.Value) -> int | None:
    owner = value.owner
    return int(owner.value) if isinstance(owner, ir.Constant) else None


def _shift(loop: ir.Parallel, known: Mapping[ir.Value, Interval]) -> _Shift | None:
    extents = [_number(e) for e in loop.extents]
    inner = list(ir.walk(loop.body))
    odd = ir.Alloc | ir.Break | ir.Continue | ir.For | ir.While | ir.Atomic | ir.Print | ir.Assert
    if loop.layout or None in extents or any(isinstance(o, odd) for o in inner):
        return None
    touched = [
        o for o in inner
        if isinstance(o, ir.Load | ir.Store) and o.buffer.buffer.space == "fragment"
    ]  # fmt: skip
    for at, point in enumerate(loop.body.args):
        uses = [
            (o.buffer.buffer.shape[d], i)
            for o in touched for d, i in enumerate(o.indices) if _depends(i, point)
        ]  # fmt: skip
        distances = [_added(index, point) for _, index in uses]
        if not uses or None in distances or len({extent for extent, _ in uses}) > 1:
            continue
        first, extent = distances[0], uses[0][0]
        assert first is not None
        reach = _interval(first, known)
        limit = _limit(loop.body, point, extents[at] or 0)
        if (
            all(d is not None and _same(d, first) for d in distances)
            and isinstance(extent, int)
            and reach is not None
            and reach[0] >= 0
            and limit is not None
            and limit + reach[1] <= extent
        ):
            return _Shift(at, tuple(index for _, index in uses), first, extent)
    return None


def _depends(value: ir.Value, on: ir.Value) -> bool:
    if value is on:
        return True
    owner = value.owner
    return isinstance(owner, ir.ScalarOp) and any(_depends(v, on) for v in owner.operand_values())


def _added(index: ir.Value, point: ir.Value) -> ir.Value | None:
    """Return what is added to a variable of the loop in an index; None where it is not a sum."""
    owner = index.owner
    if not isinstance(owner, ir.Binary) or owner.kind != "add":
        return None
    for one, other in ((owner.left, owner.right), (owner.right, owner.left)):
        if one is point and not _depends(other, point):
            return other
    return None


def _same(a: ir.Value, b: ir.Value) -> bool:
    one, other = a.owner, b.owner
    if a is b:
        return True
    if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
        return one.value == other.value and a.type == b.type
    return (
        isinstance(one, ir.Binary)
        and isinstance(other, ir.Binary)
        and one.kind == other.kind
        and _same(one.left, other.left)
        and _same(one.right, other.right)
    )


def _interval(value: ir.Value, known: Mapping[ir.Value, Interval]) -> Interval | None:
    """Return bounds of a value that is made of numbers and variables of loops around."""
    if value in known:
        return known[value]
    owner = value.owner
    if isinstance(owner, ir.Constant):
        return int(owner.value), int(owner.value)
    if not isinstance(owner, ir.Binary) or owner.kind not in ("add", "mul"):
        return None
    left, right = _interval(owner.left, known), _interval(owner.right, known)
    if left is None or right is None or min(*left, *right) < 0:
        return None
    if owner.kind == "add":
        return left[0] + right[0], left[1] + right[1]
    return left[0] * right[0], left[1] * right[1]


def _limit(body: ir.Block, point: ir.Value, extent: int) -> int | None:
    """Return how many values of a variable the body does anything for; None where it does some of
    it under a condition and some not."""
    active = [o for o in body.ops if not isinstance(o, ir.ScalarOp | ir.Load)]
    if len(active) != 1 or not isinstance(active[0], ir.If):
        return extent if not any(isinstance(o, ir.If) for o in active) else None
    branch = active[0]
    test = branch.condition.owner
    if branch.otherwise.ops or branch.results or not isinstance(test, ir.Compare):
        return None
    if any(isinstance(o, ir.Load) for o in body.ops):
        return None  # it is read for all points
    bound = _number(test.right)
    if test.kind != "lt" or test.left is not point or bound is None:
        return None
    return min(extent, bound)


def _rebuilt(
    old: ir.Parallel, new: ir.Parallel, shift: _Shift, mapping: Mapping[ir.Value, ir.Value],
    builder: ir.Builder,
) -> ir.Parallel:  # fmt: skip
    """Return a loop counted from the start of the fragment; `mapping` has the values outside."""
    args = [ir.Value(a.type, a.name) for a in old.body.args]
    place, point = args[shift.at], old.body.args[shift.at]
    own = {v for op in ir.walk(old.body) for v in op.results}
    values = {v: m for v, m in mapping.items() if v not in own}
    values |= dict(zip(old.body.args, args))
    made, inside = ir.Block(args), ir.Block()
    distance = _computed(shift.distance, own, values, made)
    first = ir.Binary("sub", place, distance)
    limit = ir.Constant(_number(old.extents[shift.at]) or 0, place.dtype)
    below = ir.Compare("lt", first.result, limit.result)
    values[point] = first.result

    def rule(op: ir.OpBase, _: ir.OpBase, __: ir.Builder) -> list[ir.Value] | None:
        return [place] if set(op.results) & set(shift.places) else None

    body = rebuilt(ir.Block([], old.body.ops), values, rule)
    inside.ops += [first, limit, below, ir.If(below.result, body, ir.Block(), span=old.span)]
    reached = ir.Compare("ge", place, distance)
    made.ops += [reached, ir.If(reached.result, inside, ir.Block(), span=old.span)]
    extent = builder.emit(ir.Constant(shift.extent, place.dtype)).result
    extents = [extent if n == shift.at else e for n, e in enumerate(new.extents)]
    return ir.Parallel(extents, made, new.hints, new.layout, new.origin)


def _computed(
    value: ir.Value, own: set[ir.Value], values: dict[ir.Value, ir.Value], made: ir.Block
) -> ir.Value:
    """Append what a value of the loop's body is computed from, and return it."""
    owner = value.owner
    if value not in own or owner is None:
        return values.get(value, value)
    known = {v: _computed(v, own, values, made) for v in owner.operand_values()}
    copy = clone(owner, known, {})
    made.ops.append(copy)
    return copy.results[0]
