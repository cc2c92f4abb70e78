"""Numbers that are known before a loop, as ops in front of it.

    (31 − b)·128 // 128 + 1, where only %f = b + 8 is a value  ⇒   %0 = sub %f, 8
                                                                   %1 = mul %0, -1
                                                                   %2 = add %1, 32

In: values that every thread can compute before the loop, and what `ranges.py` says of them.  Out:
ops for expressions of what these values are made of, and which of two is proved to be larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Linear, is_nonnegative
from tileprof.compiler.passes.identities import folded
from tileprof.compiler.passes.ranges import Ranges
from tileprof.errors import Location
from tileprof.ir.rewriter import clone
from tileprof.ir.scalar import BinaryKind


@dataclass(frozen=True)
class _Origin:
    """Computation of an atom: (value − rest) / factor, without remainder."""

    value: ir.Value
    rest: Linear
    factor: int


class Numbers:
    """Makes values of expressions."""

    def __init__(
        self,
        ranges: Ranges,
        known: Sequence[ir.Value],
        hoisted: set[ir.Value],
        span: Location | None,
    ) -> None:
        """`known`: integers that every thread can compute before the loop, in order; those of
        `hoisted` are computed in the loop until now."""
        self._before = ir.Builder(ir.Block(), span)
        self._count = 0
        self._ranges = ranges
        self._hoisted = hoisted
        self._moved: dict[ir.Value, ir.Value] = {}
        self._origins = dict(self._found(known))

    def _found(self, known: Sequence[ir.Value]) -> Iterator[tuple[Atom, _Origin]]:
        seen: set[Atom] = set()
        for value in known:
            held = self._ranges.of(value)
            new = [a for a in held.terms if a not in seen]
            if len(new) != 1:
                continue
            factor = held.terms[new[0]]
            if factor == int(factor):
                seen.add(new[0])
                rest = held - Linear(0, {new[0]: factor})
                yield new[0], _Origin(value, rest, int(factor))

    @property
    def ops(self) -> list[ir.OpBase]:
        """The ops made so far."""
        return self._before.block.ops

    def has(self, atom: Atom) -> bool:
        """Whether an atom is known before the loop."""
        return atom in self._origins

    def smaller(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The smaller of two; one of them where that is proved."""
        if self.reaches(b, a):
            return a
        return b if self.reaches(a, b) else self._binary("min", a, b)

    def larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The larger of two; one of them where that is proved."""
        if self.reaches(a, b):
            return a
        return b if self.reaches(b, a) else self._binary("max", a, b)

    def reaches(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether a ≥ b is proved."""
        return is_nonnegative(self._ranges.of(a) - self._ranges.of(b))

    def chosen(self, value: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
        """`then` where a value is at least 0."""
        holds = folded(ir.Compare("ge", value, self._before.constant(0)), self._before)
        return self._emit(ir.Select(holds, then, otherwise))

    def quotient(self, value: Linear, by: int) -> ir.Value:
        """A quotient rounded down; what is a multiple of the divisor is not divided."""
        whole = {a: f // by for a, f in value.terms.items() if f % by == 0}
        outside = Linear(value.constant // by, whole)
        rest = value - outside.times(by)
        outer, inner = self.value(outside), self.value(rest)
        divided = self._binary("floordiv", inner, self._before.constant(by))
        return self._binary("add", outer, divided)

    def value(self, value: Linear) -> ir.Value:
        """The value of an expression of numbers known before the loop."""
        made = self._before.constant(int(value.constant))
        for atom, factor in sorted(value.terms.items(), key=lambda term: term[0].number):
            part = self._binary("mul", self._atom(atom), self._before.constant(int(factor)))
            made = self._binary("add", part, made)
        return made

    def _atom(self, atom: Atom) -> ir.Value:
        origin = self._origins[atom]
        value = self._moved_out(origin.value)
        if value.type != ir.index:
            value = self._emit(ir.Cast(value, ir.index))
        if origin.rest.terms or origin.rest.constant:
            value = self._binary("sub", value, self.value(origin.rest))
        return self._binary("floordiv", value, self._before.constant(origin.factor))

    def _moved_out(self, value: ir.Value) -> ir.Value:
        """A value of the loop's body, computed before the loop."""
        owner = value.owner
        if value not in self._hoisted or owner is None:
            return value
        if value not in self._moved:
            operands = {v: self._moved_out(v) for v in owner.operand_values()}
            made = clone(owner, operands, {})
            if isinstance(made, ir.Load):
                made.in_bounds = False
            self._moved[value] = self._emit(made)
        return self._moved[value]

    def _binary(self, kind: BinaryKind, a: ir.Value, b: ir.Value) -> ir.Value:
        return self._seen(folded(ir.Binary(kind, a, b), self._before))

    def _emit(self, op: ir.OpBase) -> ir.Value:
        return self._seen(self._before.emit(op).result)

    def _seen(self, value: ir.Value) -> ir.Value:
        """The value, when the ranges have seen all ops so far."""
        for op in self._before.block.ops[self._count :]:
            self._ranges.define(op)
        self._count = len(self._before.block.ops)
        return value
