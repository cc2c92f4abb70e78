"""The iterations of a loop in which a condition holds for every element.

    k·128 + j ≤ bx·128 + i, all 0 ≤ i, j < 128    ⇒    k < bx
    bx·128 + i ≤ k·128 + j + 255                  ⇒    k ≥ bx − 1

Each comparison is an expression of numbers that is at least 0 (`ranges.py`).  What changes inside
an iteration is replaced by the bound that makes it smallest, a minimum by its cases, until only the
loop's variable and numbers known before the loop are left.  So the condition holds in each of these
iterations; where a quotient is multiplied it may hold in others too.

In: the loop, and `Ranges` that have seen its body.  Out: the first iteration and the one behind the
last as values, computed by ops to be put before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from typing import TypeVar

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Linear, is_nonnegative
from tileprof.compiler.passes.bounds import OPPOSITE, compared
from tileprof.compiler.passes.ranges import Ranges
from tileprof.ir.rewrite import clone
from tileprof.ir.scalar import BinaryKind

from .peel_masks import All, Either, Formula, Test
from .walking import folded

__all__ = ["EVERY", "Span", "Turns"]

P = TypeVar("P")

EVERY = "it changes elements in every iteration"
LARGEST = 1 << 62
"""Expressions stay below it, so that a sum of two does not wrap around."""

DEPTH = 24
"""Replacements in one expression after which it is given up."""


@dataclass(frozen=True)
class Span:
    """Iterations from `first` to before `stop`; None: from or to the end of the loop."""

    first: ir.Value | None = None
    stop: ir.Value | None = None


@dataclass(frozen=True)
class _Origin:
    """How an atom is computed: (value − rest) / factor, without remainder."""

    value: ir.Value
    rest: Linear
    factor: int


class Turns:
    """Conditions of one loop, and the ops that compute their iterations."""

    def __init__(
        self, loop: ir.For, ranges: Ranges, known: Sequence[ir.Value], hoisted: set[ir.Value]
    ) -> None:
        """`known`: numbers that every thread can compute before the loop, in order; those of
        `hoisted` are computed in the loop until now."""
        self.loop = loop
        self.before = ir.Builder(ir.Block(), loop.span)
        """The ops in front of the loop."""
        self.reason = ""
        """Why the last condition holds in no range of iterations."""
        self._count = 0
        self._ranges = ranges
        self._hoisted = hoisted
        self._moved: dict[ir.Value, ir.Value] = {}
        counter = ranges.of(loop.body.args[0])
        turns = counter - ranges.of(loop.start)
        self._turn = max(turns.terms, key=lambda atom: atom.number, default=None)
        self._origins = dict(self._found(known))
        self._start = counter
        if self._turn is not None:
            self._start = counter - Linear(0, {self._turn: 1})

    def _found(self, known: Sequence[ir.Value]) -> Iterator[tuple[Atom, _Origin]]:
        seen: set[Atom] = set()
        for value in known:
            held = self._ranges.of(value)
            new = [a for a in held.terms if a not in seen]
            if len(new) != 1 or new[0] is self._turn:
                continue
            factor = held.terms[new[0]]
            if factor == int(factor):
                seen.add(new[0])
                rest = held - Linear(0, {new[0]: factor})
                yield new[0], _Origin(value, rest, int(factor))

    # -- from a condition to iterations

    def where(self, condition: Formula) -> Span | None:
        """A range of iterations in which the condition holds everywhere; None for no such."""
        match condition:
            case Test(value=value, holds=holds):
                return self._test(value.owner, holds)
            case All(parts=parts):
                return self._each(parts, self.where)
            case Either(parts=parts):
                return self._some(parts, self.where)

    def _test(self, op: ir.OpBase | None, holds: bool) -> Span | None:
        if not isinstance(op, ir.Compare) or not op.left.dtype.is_integer:
            self.reason = "its condition is not about indices"
            return None
        kind = op.kind if holds else OPPOSITE[op.kind]
        a, b = self._ranges.of(op.left), self._ranges.of(op.right)
        if kind == "ne":
            apart = [(a - b).plus(-1), (b - a).plus(-1)]
            return self._some(apart, self._expression)
        return self._each(list(compared(kind, a, b)), self._expression)

    def _expression(self, value: Linear) -> Span | None:
        return self._nonnegative(value, DEPTH)

    def _each(self, parts: Sequence[P], where: Callable[[P], Span | None]) -> Span | None:
        """Where all parts hold."""
        spans = []
        for part in parts:
            span = where(part)
            if span is None:
                return None
            spans.append(span)
        return self.both(spans)

    def both(self, spans: Sequence[Span]) -> Span:
        """What all ranges have in common."""
        firsts = [s.first for s in spans if s.first is not None]
        stops = [s.stop for s in spans if s.stop is not None]
        return Span(self._extreme("max", firsts), self._extreme("min", stops))

    def _some(self, parts: Sequence[P], where: Callable[[P], Span | None]) -> Span | None:
        """Where one part holds, the same at least for all elements."""
        spans = [span for part in parts if (span := where(part)) is not None]
        if not spans or Span() in spans:
            return Span() if spans else None
        if all(s.first is None for s in spans):
            return Span(None, self._extreme("max", [s.stop for s in spans if s.stop is not None]))
        if all(s.stop is None for s in spans):
            return Span(self._extreme("min", [s.first for s in spans if s.first is not None]))
        return spans[0]

    def _extreme(self, kind: BinaryKind, values: list[ir.Value]) -> ir.Value | None:
        made: ir.Value | None = None
        for value in values:
            made = value if made is None else self._binary(kind, made, value)
        return made

    # -- one expression

    def _nonnegative(self, value: Linear, depth: int) -> Span | None:
        """Where a whole number is at least 0, of which `value` may be a bound from below."""
        inner = [a for a in value.terms if a is not self._turn and a not in self._origins]
        if not inner:
            return self._known(value)
        if depth == 0:
            self.reason = "its condition is too long"
            return None
        newest = max(inner, key=lambda atom: atom.number)
        factor = value.terms[newest]
        rest = value - Linear(0, {newest: factor})

        def replaced(end: Linear) -> Span | None:
            return self._nonnegative(rest + end.times(factor), depth - 1)

        ends, last = (newest.lowers, newest.low) if factor > 0 else (newest.uppers, newest.high)
        if ends:
            return self._some(ends, replaced)
        if newest.cases:
            return self._each(newest.cases, replaced)
        if not newest.uppers:
            # Nothing but its type, or the op that gives it, bounds the number.
            self.reason = "a number in its condition is computed anew in each iteration"
        return replaced(Linear(last))

    def _known(self, value: Linear) -> Span | None:
        """Where c·turn + rest is above -1."""
        if is_nonnegative(value):
            return Span()
        by = lcm(*(f.denominator for f in (value.constant, *value.terms.values())))
        whole = value.times(by).plus(by - 1)
        factor = int(whole.terms.get(self._turn, 0)) if self._turn is not None else 0
        # The loop's variable is start + turn.
        rest = Linear(whole.constant, {a: f for a, f in whole.terms.items() if a is not self._turn})
        rest -= self._start.times(factor)
        if not self._fits(rest):
            return None
        if factor > 0:
            return Span(first=self._quotient(rest.times(-1).plus(factor - 1), factor))
        if factor < 0:
            return Span(stop=self._quotient(rest.plus(-factor), -factor))
        if is_nonnegative(rest.times(-1).plus(-1)):
            self.reason = self.reason or EVERY
            return None
        return Span(stop=self._all_or_none(self._value(rest)))

    def _fits(self, value: Linear) -> bool:
        if any(atom not in self._origins for atom in value.terms):
            self.reason = "its condition depends on what the block computes"
        elif max(-value.low, value.high) >= LARGEST:
            self.reason = "its condition may wrap around"
        else:
            return True
        return False

    def _all_or_none(self, value: ir.Value) -> ir.Value:
        """The end of the loop where a value is at least 0, else its start."""
        zero = self.before.constant(0)
        holds = folded(ir.Compare("ge", value, zero), self.before)
        return self._emit(ir.Select(holds, self.loop.stop, self.loop.start))

    # -- values

    def clamped(self, span: Span) -> tuple[ir.Value, ir.Value]:
        """The range inside of that of the loop: its first iteration, and the one behind its last;
        the loop's own bounds where it is proved to reach them."""
        start, stop = self.loop.start, self.loop.stop
        first = start
        if span.first is not None:
            first = self._larger(self._smaller(span.first, stop), start)
        if span.stop is None:
            return first, stop
        return first, self._smaller(self._larger(span.stop, first), stop)

    def is_empty(self, span: Span) -> bool:
        """Whether the range is proved to have no iteration of the loop."""
        first = self.loop.start if span.first is None else span.first
        stop = self.loop.stop if span.stop is None else span.stop
        pairs = ((first, stop), (self.loop.start, stop), (first, self.loop.stop))
        return any(self._reaches(a, b) for a, b in pairs)

    def _smaller(self, a: ir.Value, b: ir.Value) -> ir.Value:
        if self._reaches(b, a):
            return a
        return b if self._reaches(a, b) else self._binary("min", a, b)

    def _larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        if self._reaches(a, b):
            return a
        return b if self._reaches(b, a) else self._binary("max", a, b)

    def _reaches(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether a ≥ b is proved."""
        return is_nonnegative(self._ranges.of(a) - self._ranges.of(b))

    def _quotient(self, value: Linear, by: int) -> ir.Value:
        """A quotient rounded down; what is a multiple of the divisor is not divided."""
        whole = {a: f // by for a, f in value.terms.items() if f % by == 0}
        outside = Linear(value.constant // by, whole)
        rest = value - outside.times(by)
        outer, inner = self._value(outside), self._value(rest)
        divided = self._binary("floordiv", inner, self.before.constant(by))
        return self._binary("add", outer, divided)

    def _value(self, value: Linear) -> ir.Value:
        """The value of an expression of numbers known before the loop."""
        made = self.before.constant(int(value.constant))
        for atom, factor in sorted(value.terms.items(), key=lambda term: term[0].number):
            part = self._binary("mul", self._atom(atom), self.before.constant(int(factor)))
            made = self._binary("add", part, made)
        return made

    def _atom(self, atom: Atom) -> ir.Value:
        origin = self._origins[atom]
        value = self._moved_out(origin.value)
        if value.type != ir.index:
            value = self._emit(ir.Cast(value, ir.index))
        if origin.rest.terms or origin.rest.constant:
            value = self._binary("sub", value, self._value(origin.rest))
        return self._binary("floordiv", value, self.before.constant(origin.factor))

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
        return self._seen(folded(ir.Binary(kind, a, b), self.before))

    def _emit(self, op: ir.OpBase) -> ir.Value:
        return self._seen(self.before.emit(op).result)

    def _seen(self, value: ir.Value) -> ir.Value:
        """The value, when the ranges have seen all ops so far."""
        for op in self.before.block.ops[self._count :]:
            self._ranges.define(op)
        self._count = len(self.before.block.ops)
        return value
