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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import lcm
from typing import TypeVar

from tileprof import ir
from tileprof.compiler.cuda.tuning import CONDITION_STEPS
from tileprof.compiler.passes.affine import Linear, is_nonnegative
from tileprof.compiler.passes.bounds import OPPOSITE, compared
from tileprof.compiler.passes.ranges import Ranges
from tileprof.remarks import Reason
from tileprof.remarks.loops import (
    ChangesEvery,
    ConditionComputed,
    ConditionLong,
    ConditionNumber,
    MayWrap,
    NotAboutIndices,
)

from .masks import All, Either, Formula, Test
from .numbers import Numbers

P = TypeVar("P")

EVERY = ChangesEvery()
LARGEST = 1 << 62
"""Expressions stay below it, so that a sum of two does not wrap around."""


@dataclass(frozen=True)
class Span:
    """Iterations from `first` to before `stop`; None: from or to the end of the loop."""

    first: ir.Value | None = None
    stop: ir.Value | None = None


class Iterations:
    """Conditions of one loop, and the ops that compute their iterations."""

    def __init__(
        self, loop: ir.For, ranges: Ranges, known: Sequence[ir.Value], hoisted: set[ir.Value]
    ) -> None:
        """`known`: numbers that every thread can compute before the loop, in order; those of
        `hoisted` are computed in the loop until now."""
        self.loop = loop
        self.reason: Reason | None = None
        """Why the last condition holds in no range of iterations."""
        self._left = 0
        self._ranges = ranges
        self._numbers = Numbers(ranges, known, hoisted, loop.span)
        counter = ranges.of(loop.body.args[0])
        passed = counter - ranges.of(loop.start)
        self._iteration = max(passed.terms, key=lambda atom: atom.number, default=None)
        self._start = counter
        if self._iteration is not None:
            self._start = counter - Linear(0, {self._iteration: 1})

    # -- from a condition to iterations

    @property
    def before(self) -> list[ir.OpBase]:
        """The ops in front of the loop."""
        return self._numbers.ops

    def where(self, condition: Formula) -> Span | None:
        """A range of iterations in which the condition holds everywhere; None for no such."""
        self.reason = None
        self._left = CONDITION_STEPS
        return self._formula(condition)

    def _formula(self, condition: Formula) -> Span | None:
        match condition:
            case Test(value=value, holds=holds):
                return self._test(value.owner, holds)
            case All(parts=parts):
                return self._each(parts, self._formula)
            case Either(parts=parts):
                return self._some(parts, self._formula)

    def _test(self, op: ir.OpBase | None, holds: bool) -> Span | None:
        if not isinstance(op, ir.Compare) or not op.left.dtype.is_integer:
            self.reason = NotAboutIndices()
            return None
        kind = op.kind if holds else OPPOSITE[op.kind]
        a, b = self._ranges.of(op.left), self._ranges.of(op.right)
        if kind == "ne":
            apart = [(a - b).plus(-1), (b - a).plus(-1)]
            return self._some(apart, self._nonnegative)
        return self._each(list(compared(kind, a, b)), self._nonnegative)

    def _each(self, parts: Sequence[P], where: Callable[[P], Span | None]) -> Span | None:
        """Return where all parts hold."""
        spans = []
        for part in parts:
            span = where(part)
            if span is None:
                return None
            spans.append(span)
        return self.both(spans)

    def both(self, spans: Sequence[Span]) -> Span:
        """Return what all ranges have in common."""
        firsts = [s.first for s in spans if s.first is not None]
        stops = [s.stop for s in spans if s.stop is not None]
        return Span(_joined(self._numbers.larger, firsts), _joined(self._numbers.smaller, stops))

    def _some(self, parts: Sequence[P], where: Callable[[P], Span | None]) -> Span | None:
        """Return where one part holds, the same at least for all elements."""
        spans = [span for part in parts if (span := where(part)) is not None]
        if not spans or Span() in spans:
            return Span() if spans else None
        firsts = [s.first for s in spans if s.first is not None]
        stops = [s.stop for s in spans if s.stop is not None]
        if firsts and stops:
            return spans[0]
        return Span(_joined(self._numbers.smaller, firsts), _joined(self._numbers.larger, stops))

    # -- one expression

    def _nonnegative(self, value: Linear) -> Span | None:
        """Return where a whole number is at least 0, of which `value` may be a bound from below."""
        self._left -= 1
        if self._left < 0:
            self.reason = ConditionLong()
            return None
        inner = [a for a in value.terms if a is not self._iteration and not self._numbers.has(a)]
        if not inner:
            return self._known(value)
        newest = max(inner, key=lambda atom: atom.number)
        factor = value.terms[newest]
        rest = value - Linear(0, {newest: factor})

        def replaced(end: Linear) -> Span | None:
            return self._nonnegative(rest + end.times(factor))

        ends, last = (newest.lowers, newest.low) if factor > 0 else (newest.uppers, newest.high)
        if ends:
            return self._some(ends, replaced)
        if newest.cases:
            return self._each(newest.cases, replaced)
        if not newest.uppers:
            # Nothing but its type, or the op that gives it, bounds the number.
            self.reason = ConditionNumber()
        return replaced(Linear(last))

    def _known(self, value: Linear) -> Span | None:
        """Return where c·iteration + rest is above -1."""
        if is_nonnegative(value):
            return Span()
        by = lcm(*(f.denominator for f in (value.constant, *value.terms.values())))
        whole = value.times(by).plus(by - 1)
        factor = int(whole.terms.get(self._iteration, 0)) if self._iteration is not None else 0
        # The loop's variable is start + iteration.
        rest = Linear(
            whole.constant, {a: f for a, f in whole.terms.items() if a is not self._iteration}
        )
        rest -= self._start.times(factor)
        if not self._fits(rest):
            return None
        if factor > 0:
            return Span(first=self._numbers.quotient(rest.times(-1).plus(factor - 1), factor))
        if factor < 0:
            return Span(stop=self._numbers.quotient(rest.plus(-factor), -factor))
        if is_nonnegative(rest.times(-1).plus(-1)):
            self.reason = self.reason or EVERY
            return None
        # All iterations or none.
        stop, start = self.loop.stop, self.loop.start
        return Span(stop=self._numbers.chosen(self._numbers.value(rest), stop, start))

    def _fits(self, value: Linear) -> bool:
        if not all(map(self._numbers.has, value.terms)):
            self.reason = ConditionComputed()
        elif max(-value.low, value.high) >= LARGEST:
            self.reason = MayWrap()
        else:
            return True
        return False

    # -- ranges

    def clamped(self, span: Span) -> tuple[ir.Value, ir.Value]:
        """The range inside of that of the loop: its first iteration, and the one behind its last;
        the loop's own bounds where it is proved to reach them."""
        start, stop = self.loop.start, self.loop.stop
        smaller, larger = self._numbers.smaller, self._numbers.larger
        first = start if span.first is None else larger(smaller(span.first, stop), start)
        last = stop if span.stop is None else smaller(larger(span.stop, first), stop)
        return first, last

    def is_empty(self, span: Span) -> bool:
        """Whether the range is proved to have no iteration of the loop."""
        first = self.loop.start if span.first is None else span.first
        stop = self.loop.stop if span.stop is None else span.stop
        pairs = ((first, stop), (self.loop.start, stop), (first, self.loop.stop))
        return any(self._numbers.reaches(a, b) for a, b in pairs)


def _joined(
    join: Callable[[ir.Value, ir.Value], ir.Value], values: Sequence[ir.Value]
) -> ir.Value | None:
    return reduce(join, values) if values else None
