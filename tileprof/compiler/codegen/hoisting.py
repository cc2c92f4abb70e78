"""Checks of a whole loop nest in front of it: conditions under which its accesses are inside.

An index that is a sum of loop variables and of values from outside has its extremes at corners of
the nest; comparing them once proves every access.  What is no such sum stays checked at each point.
The conditions of branches are compared in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tileprof import ir

from .buffers import Extent, paren
from .expressions import is_pure, render
from .ranges import Comparison, Ends, Sum, ends
from .values import Values

_Access = ir.Load | ir.Store | ir.Atomic
_LONGEST = 2000
"""Longest text of a value in front of a nest, in characters.

Shared operands are written out at each use, so texts can double with each op.  An index with a
longer text stays checked at each point.
"""
ShapeOf = Callable[[ir.Value], Sequence[Extent] | None]
"""The shape of a buffer that exists in front of the nest."""
Widened = Callable[[ir.Value, Sum], Sum]


@dataclass
class _Nest:
    """The variables of a nest with their ends, and the accesses inside."""

    shape_of: ShapeOf
    widened: Widened
    box: dict[ir.Value, Ends] = field(default_factory=dict)
    defined: set[ir.Value] = field(default_factory=set)
    """Everything that is computed inside."""
    accesses: list[_Access] = field(default_factory=list)
    texts: dict[ir.Value, Extent | None] = field(default_factory=dict)
    """Texts that `_outer_text` found, of values that many others may share."""
    ends: dict[ir.Value, Ends | None] = field(default_factory=dict)
    """Ends of indices over the nest, once it is surveyed."""


def hoisted(
    ctx: Values, op: ir.Parallel, shape_of: ShapeOf, widened: Widened = lambda value, sum: sum
) -> tuple[list[Comparison], set[ir.OpBase]]:
    """Conditions under which the accesses of the set are inside; none where they always are.

    `widened` may change the type of the terms of a sum that bounds an index.
    """
    nest = _nest(ctx, op, shape_of, widened)
    conditions: dict[str, Comparison] = {}
    proved: set[ir.OpBase] = set()
    for access in nest.accesses:
        needed = _inside(ctx, nest, access)
        if needed is not None:
            proved.add(access)
            conditions.update((str(each), each) for each in needed)
    return list(conditions.values()), proved


def always(
    ctx: Values, op: ir.Parallel, branches: Iterable[ir.If], widened: Widened
) -> tuple[list[Comparison], set[ir.OpBase]]:
    """Conditions under which every point takes the first of both branches of those in the set."""
    nest = _nest(ctx, op, lambda value: None, widened)
    conditions: dict[str, Comparison] = {}
    found: set[ir.OpBase] = set()
    for each in branches:
        needed = _holds(ctx, nest, each.condition)
        if needed is not None:
            found.add(each)
            conditions.update((str(each), each) for each in needed)
    return list(conditions.values()), found


def _nest(ctx: Values, op: ir.Parallel, shape_of: ShapeOf, widened: Widened) -> _Nest:
    nest = _Nest(shape_of, widened)
    for variable, extent in zip(op.body.args, op.extents, strict=True):
        nest.box[variable] = (Sum(), _sum(ctx.index(extent)).plus(Sum(-1)))
    _survey(ctx, op.body, nest)
    return nest


def _holds(ctx: Values, nest: _Nest, condition: ir.Value) -> list[Comparison] | None:
    """Return the condition for a comparison to be true at every point; None where none is known."""
    needed: list[Comparison] = []
    for each in _conjuncts(condition):
        match each.owner:
            case ir.Compare(kind="lt" | "le" as kind, left=low, right=high):
                found = _below(ctx, nest, low, high, strict=kind == "lt")
            case ir.Compare(kind="gt" | "ge" as kind, left=high, right=low):
                found = _below(ctx, nest, low, high, strict=kind == "gt")
            case _:
                found = None
        if found is None:
            return None
        needed += found
    return needed


def _conjuncts(condition: ir.Value) -> list[ir.Value]:
    """Return the conditions that `and` joins, from left to right, each once."""
    seen: set[ir.Value] = set()
    found: list[ir.Value] = []
    todo = [condition]
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        match value.owner:
            case ir.Binary(kind="and", left=left, right=right):
                todo += [right, left]
            case _:
                found.append(value)
    return found


def _below(
    ctx: Values, nest: _Nest, low: ir.Value, high: ir.Value, *, strict: bool
) -> list[Comparison] | None:
    if low.dtype.kind != "index":
        return None
    one, two = (_ends(ctx, nest, value) for value in (low, high))
    if one is None or two is None:
        return None
    over = one[1].plus(two[0], -1)
    if not over.terms:
        return [] if over.constant < strict else None
    ends_ = nest.widened(low, one[1]), nest.widened(high, two[0])
    return [Comparison(ends_[0], "<" if strict else "<=", ends_[1])]


def _survey(ctx: Values, block: ir.Block, nest: _Nest) -> None:
    nest.defined |= set(block.args)
    for op in block.ops:
        nest.defined |= set(op.results)
        if isinstance(op, ir.Load | ir.Store | ir.Atomic) and not op.in_bounds and op.indices:
            nest.accesses.append(op)
        if isinstance(op, ir.For):
            _add_loop(ctx, op, nest)
        for inner in op.blocks():
            _survey(ctx, inner, nest)


def _add_loop(ctx: Values, op: ir.For, nest: _Nest) -> None:
    """A loop inside the nest whose range does not depend on the point is one more dimension."""
    step = op.step.owner
    fixed = not {op.start, op.stop} & nest.defined or all(
        isinstance(v.owner, ir.Constant) for v in (op.start, op.stop)
    )
    if fixed and isinstance(step, ir.Constant) and step.value > 0:
        low, high = _outer_text(ctx, op.start, nest), _outer_text(ctx, op.stop, nest)
        if low is not None and high is not None:
            nest.box[op.body.args[0]] = (_sum(low), _sum(high).plus(Sum(-1)))


def _outer_text(ctx: Values, value: ir.Value, nest: _Nest) -> Extent | None:
    """Return a value's text in front of the nest, or None where it has none or a long one.

    The value comes from outside, or is computed inside from such values.
    """
    if value not in nest.texts:
        text = _written_outside(ctx, value, nest)
        nest.texts[value] = None if isinstance(text, str) and len(text) > _LONGEST else text
    return nest.texts[value]


def _written_outside(ctx: Values, value: ir.Value, nest: _Nest) -> Extent | None:
    owner = value.owner
    if isinstance(owner, ir.Constant):
        return int(owner.value)
    if value not in nest.defined:
        return ctx.values.get(value)
    if owner is None or not is_pure(owner):
        return None
    parts = [_outer_text(ctx, v, nest) for v in owner.operand_values()]
    if any(p is None for p in parts):
        return None
    return render(owner, [paren(str(p)) for p in parts])


def _inside(ctx: Values, nest: _Nest, access: _Access) -> list[Comparison] | None:
    """Return the condition for an access to be inside at every point; None where none is known."""
    shape = nest.shape_of(access.buffer)
    if shape is None:
        # A buffer that the body allocates itself.
        owner = access.buffer.owner
        if not isinstance(owner, ir.Alloc):
            return None
        shape = owner.shape
    needed: list[Comparison] = []
    for value, extent in zip(access.indices, shape, strict=True):
        low, high = ctx.interval(value)
        above = low is not None and low >= 0
        below = high is not None and isinstance(extent, int) and high < extent
        if above and below:
            continue
        found = _ends(ctx, nest, value)
        if found is None:
            return None
        if not above:
            if not found[0].terms and found[0].constant < 0:
                return None
            if found[0].terms:
                needed.append(Comparison(nest.widened(value, found[0]), ">=", 0))
        if not below:
            # Where the extent is part of the sum, as in `n - 1 < n`, only a number is left.
            over = found[1].plus(_sum(extent), -1)
            if not over.terms and over.constant >= 0:
                return None
            if over.terms:
                needed.append(Comparison(nest.widened(value, found[1]), "<", extent))
    return needed


def _ends(ctx: Values, nest: _Nest, value: ir.Value) -> Ends | None:
    return ends(value, lambda v: _find(ctx, nest, v), nest.ends)


def _find(ctx: Values, nest: _Nest, value: ir.Value) -> Ends | None:
    if value in nest.box:
        return nest.box[value]
    owner = value.owner
    sum_inside = (
        value in nest.defined
        and isinstance(owner, ir.Binary)
        and owner.kind in ("add", "sub", "mul")
    )
    if not sum_inside and (text := _outer_text(ctx, value, nest)) is not None:
        return _sum(text), _sum(text)
    low, high = ctx.interval(value)
    return None if sum_inside or low is None or high is None else (Sum(low), Sum(high))


def _sum(text: Extent) -> Sum:
    return Sum(text) if isinstance(text, int) else Sum(0, {text: 1})
