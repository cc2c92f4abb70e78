"""Masks of fragments as comparisons of a point's own index with one number.

    parallel [128, 64] body(i, j)                    parallel [128, 64] body(i, j)
      le (add (mul k, 64), j), (add first, i)    ⇒     limit = sub (add first, i), (mul k, 64)
                                                       le j, min(max(limit, -1), 64)

In a thread j differs from element to element by a constant, so what is left for each element is one
comparison of 32 bits; the number is the same for all elements of a row.  A comparison that holds
for all points of all iterations goes: it would seem to change from element to element.
In: elementwise ops as `parallel`.  Out: the same, where a comparison of indices in a loop over a
fragment has one side that grows by 1 with one of its points' indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.codegen.ranges import Interval, interval
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.passes.identities import folded
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.ir.scalar import BinaryKind, CompareKind

_MIRRORED: dict[CompareKind, CompareKind] = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def narrow_masks(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such comparisons made narrow."""
    return per_launch(kernel, _narrowed)


def _narrowed(launch: ir.Launch) -> ir.Launch:
    limits: dict[ir.OpBase, _Limit] = {}
    holds: set[ir.OpBase] = set()
    joins: set[ir.OpBase] = set()
    known = known_bounds(launch)
    bounds: dict[ir.Value, Interval] = {}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Parallel) and _fills_fragments(op):
            points = _points(op)
            for inner in ir.walk(op.body):
                if isinstance(inner, ir.Compare) and _always(inner, known, bounds):
                    holds.add(inner)
                elif isinstance(inner, ir.Compare) and (found := _split(inner, points)) is not None:
                    limits[inner] = found
                elif isinstance(inner, ir.Binary) and inner.kind in ("and", "or"):
                    joins.add(inner)
    if not limits and not holds:
        return launch

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old in holds:
            return [builder.constant(True, ir.dtype("bool"))]
        if old in joins and isinstance(new, ir.Binary):
            return [folded(new, builder)]
        return [limits[old].emit(mapping, builder)] if old in limits else None

    mapping: dict[ir.Value, ir.Value] = {}
    return with_originals(launch, rule, mapping)


def known_bounds(launch: ir.Launch) -> dict[ir.Value, Interval]:
    """Return the bounds of block indices and of the variables of loops."""

    def upto(stop: ir.Value) -> int | None:
        return int(stop.owner.value) - 1 if isinstance(stop.owner, ir.Constant) else None

    known: dict[ir.Value, Interval] = {}
    for op in (launch, *ir.walk(launch.body)):
        if isinstance(op, ir.Launch | ir.Parallel):
            extents = op.grid if isinstance(op, ir.Launch) else op.extents
            known |= {v: (0, upto(e)) for v, e in zip(op.body.args, extents, strict=True)}
        elif isinstance(op, ir.For) and len(op.body.args) == 1:
            step, first = upto(op.step), upto(op.start)
            given = bool(op.body.ops) and isinstance(op.body.ops[-1], ir.Yield)
            if step is not None and step >= 0 and first is not None and not given:
                known[op.body.args[0]] = first + 1, upto(op.stop)
    return known


def _always(
    op: ir.Compare, known: dict[ir.Value, Interval], found: dict[ir.Value, Interval]
) -> bool:
    """Whether a comparison of indices holds whatever their variables are."""
    if op.kind not in _MIRRORED or op.left.type != ir.dtype("index"):
        return False
    (low, high), (least, most) = (interval(v, known, found) for v in (op.left, op.right))
    match op.kind:
        case "lt" | "le":
            return high is not None and least is not None and high < least + (op.kind == "le")
        case _:
            return low is not None and most is not None and low > most - (op.kind == "ge")


def _fills_fragments(loop: ir.Parallel) -> bool:
    """Whether all that a loop stores goes to fragments."""
    stores = [o for o in ir.walk(loop.body) if isinstance(o, ir.Store | ir.Atomic)]
    return bool(stores) and all(o.buffer.buffer.space == "fragment" for o in stores)


@dataclass(frozen=True)
class _Point:
    """The index of a point along one axis."""

    index: ir.Value
    extent: ir.Value
    computed: set[ir.Value]
    """Values that are computed from it, itself included."""


def _points(loop: ir.Parallel) -> list[_Point]:
    """The axes of a loop, the last first."""
    found = [_Point(i, e, {i}) for i, e in zip(loop.body.args, loop.extents)]
    for op in ir.walk(loop.body):
        for point in found:
            if any(v in point.computed for v in op.all_operand_values()):
                point.computed.update(op.results)
    return found[::-1]


@dataclass
class _Sum:
    """Values with their signs."""

    plus: list[ir.Value] = field(default_factory=list)
    minus: list[ir.Value] = field(default_factory=list)

    def add(self, value: ir.Value, computed: set[ir.Value], sign: bool = True) -> None:
        """Take a value apart as far as it is computed from a point."""
        owner = value.owner if value in computed else None
        match owner:
            case ir.Binary(kind="add" | "sub" as kind, left=left, right=right):
                self.add(left, computed, sign)
                self.add(right, computed, sign if kind == "add" else not sign)
            case _:
                (self.plus if sign else self.minus).append(value)


@dataclass
class _Limit:
    """`point KIND sum`, for a point below an extent."""

    kind: CompareKind
    point: _Point
    sum: _Sum

    def emit(self, mapping: dict[ir.Value, ir.Value], builder: ir.Builder) -> ir.Value:
        """The comparison; `mapping` has the values of the new kernel."""

        def make(kind: BinaryKind, a: ir.Value, b: ir.Value) -> ir.Value:
            return folded(ir.Binary(kind, a, b), builder)

        total = builder.constant(0)
        for value in self.sum.plus:
            total = make("add", total, mapping.get(value, value))
        for value in self.sum.minus:
            total = make("sub", total, mapping.get(value, value))
        # Beyond these ends the answer is the same for every point.
        total = make("max", total, builder.constant(-1))
        total = make("min", total, mapping.get(self.point.extent, self.point.extent))
        point = mapping.get(self.point.index, self.point.index)
        return builder.emit(ir.Compare(self.kind, point, total)).result


def _split(op: ir.Compare, points: list[_Point]) -> _Limit | None:
    """The comparison solved for the last point's index in it; None where it is in that form, or
    cannot be."""
    if op.kind not in _MIRRORED or op.left.type != ir.dtype("index"):
        return None
    if any(point.index in (op.left, op.right) for point in points):
        return None
    for point in points:
        both = _Sum()
        both.add(op.left, point.computed)
        both.add(op.right, point.computed, sign=False)
        held = [v for v in (*both.plus, *both.minus) if v in point.computed]
        if held != [point.index] or not isinstance(point.extent.owner, ir.Constant):
            continue
        # plus + point KIND minus, or plus KIND minus + point.
        if point.index in both.plus:
            both.plus.remove(point.index)
            return _Limit(op.kind, point, _Sum(both.minus, both.plus))
        both.minus.remove(point.index)
        return _Limit(_MIRRORED[op.kind], point, both)
    return None
