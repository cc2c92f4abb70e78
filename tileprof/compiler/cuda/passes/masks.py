"""Masks of fragments as comparisons of a point's own index with one number.

    parallel [128, 64] body(i, j)                    parallel [128, 64] body(i, j)
      le (add (mul k, 64), j), (add first, i)    ⇒     limit = sub (add first, i), (mul k, 64)
                                                       le j, min(max(limit, -1), 64)

In a thread j differs from element to element by a constant, so what is left for each element is one
comparison of 32 bits; the number is the same for all elements of a row.
In: elementwise ops as `parallel`.  Out: the same, where a comparison of indices in a loop over a
fragment has one side that grows by 1 with one of its points' indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewrite import clone
from tileprof.ir.scalar import BinaryKind, CompareKind

from .walking import folded, per_launch, rebuilt

__all__ = ["narrow_masks"]

_MIRRORED: dict[CompareKind, CompareKind] = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def narrow_masks(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such comparisons made narrow."""
    return per_launch(kernel, _narrowed)


def _narrowed(launch: ir.Launch) -> ir.Launch:
    points: dict[ir.OpBase, dict[ir.Value, ir.Value]] = {}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Parallel) and _fills_fragments(op):
            extents = dict(zip(op.body.args, op.extents))
            for inner in ir.walk(op.body):
                if isinstance(inner, ir.Compare) and inner.kind in _MIRRORED:
                    points[inner] = extents
    if not points:
        return launch

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in points or not isinstance(old, ir.Compare) or not isinstance(new, ir.Compare):
            return None
        found = _split(old, points[old])
        return None if found is None else [found.emit(mapping, builder)]

    mapping: dict[ir.Value, ir.Value] = {}
    made = clone(launch, {}, {"body": rebuilt(launch.body, mapping, rule)})
    assert isinstance(made, ir.Launch)
    return made


def _fills_fragments(loop: ir.Parallel) -> bool:
    """Whether all that a loop stores goes to fragments."""
    stores = [o for o in ir.walk(loop.body) if isinstance(o, ir.Store | ir.Atomic)]
    return bool(stores) and all(o.buffer.buffer.space == "fragment" for o in stores)


@dataclass
class _Sum:
    """Values with their signs, and a number."""

    plus: list[ir.Value] = field(default_factory=list)
    minus: list[ir.Value] = field(default_factory=list)

    def add(self, value: ir.Value, points: dict[ir.Value, ir.Value], sign: bool = True) -> None:
        """Take a value apart as far as it depends on a point."""
        match value.owner:
            case ir.Binary(kind="add" | "sub" as kind, left=left, right=right) if _depends(
                value, points
            ):
                self.add(left, points, sign)
                self.add(right, points, sign if kind == "add" else not sign)
            case _:
                (self.plus if sign else self.minus).append(value)


@dataclass
class _Limit:
    """`point KIND sum`, for a point below an extent."""

    kind: CompareKind
    point: ir.Value
    extent: ir.Value
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
        total = make("min", total, mapping.get(self.extent, self.extent))
        point = mapping.get(self.point, self.point)
        return builder.emit(ir.Compare(self.kind, point, total)).result


def _split(op: ir.Compare, points: dict[ir.Value, ir.Value]) -> _Limit | None:
    """The comparison solved for the last point's index in it; None where it is in that form, or
    cannot be."""
    if op.left.type != ir.dtype("index") or op.left in points or op.right in points:
        return None
    both = _Sum()
    both.add(op.left, points)
    both.add(op.right, points, sign=False)
    for point in reversed(points):
        sides = [side for side in (both.plus, both.minus) if point in side]
        held = [v for v in (*both.plus, *both.minus) if _depends(v, {point: point})]
        if held != [point] or not isinstance(points[point].owner, ir.Constant):
            continue
        (side,) = sides
        side.remove(point)
        # plus + point KIND minus, or plus KIND minus + point.
        if side is both.plus:
            return _Limit(op.kind, point, points[point], _Sum(both.minus, both.plus))
        return _Limit(_MIRRORED[op.kind], point, points[point], both)
    return None


def _depends(value: ir.Value, points: dict[ir.Value, ir.Value]) -> bool:
    """Whether a value is computed from a point's index."""
    if value in points:
        return True
    owner = value.owner
    return owner is not None and any(_depends(v, points) for v in owner.operand_values())
