"""Bounds of each integer of a kernel, as linear expressions (`affine.py`).

    block index b of extent g       0 ≤ b ≤ g - 1
    loop from a below z by s        a + s·t,  0 ≤ t ≤ (z - 1 - a) // s
    e // d, for a number d > 0      e/d - (d - 1)/d ≤ q ≤ e/d;  e % d is e - d·q
    min, max, select, if            one of the choices
    e << n, 0 ≤ n ≤ k, e ≥ 0        0 ≤ q ≤ max(e) · 2**k, also where n is no number
    a symbol that is an extent      0 ≤ m < 2**48: no larger tensor exists

An expression that could wrap around at the width of its type is replaced by an unknown number, so
that arithmetic on whole numbers holds for all others.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tileprof import ir

from .affine import Atom, Effort, Linear, is_nonnegative

EXTENT_LIMIT = 1 << 48
SHIFT_LIMIT = 63
"""Bits by which no type is shifted without a loss."""
MOST_TERMS = 64
"""Terms of one expression; a longer one is replaced by an unknown number between its bounds."""


class Ranges:
    """Expressions of the integers seen so far; `enter` and `define` follow the program."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._count = 0
        self._known: dict[ir.Value, Linear] = {}
        self._quotients: dict[tuple[object, ...], Linear] = {}
        self.dividends: dict[Atom, Linear] = {}
        """Parts of a quotient: where these are the same, so is the quotient."""
        self._symbols = kernel.symbol_values()
        types = [p.type for p in kernel.params if isinstance(p.type, ir.BufferType)]
        extents = {dim for type_ in types for dim in type_.shape}
        for name, value in self._symbols.items():
            low = 0 if name in extents else -EXTENT_LIMIT
            self._known[value] = self._atom(low, EXTENT_LIMIT)

    def of(self, value: ir.Value) -> Linear:
        """The expression of an integer value."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._atom(*value.dtype.limits)
        return found

    def extent(self, dim: ir.Dim) -> Linear:
        """The expression of an extent."""
        return Linear(dim) if isinstance(dim, int) else self.of(self._symbols[dim])

    @property
    def made(self) -> int:
        """Number of the newest atom; later ones have larger numbers."""
        return self._count

    def window(self, view: ir.View) -> tuple[ir.Value, list[Linear]]:
        """Return the buffer of a view and where the view starts in it; offsets of views of views
        add up."""
        base, starts = view.base, [self.of(offset) for offset in view.offsets]
        while isinstance(base.owner, ir.View):
            starts = [s + self.of(o) for s, o in zip(starts, base.owner.offsets)]
            base = base.owner.base
        return base, starts

    def enter(self, op: ir.OpBase) -> None:
        """Bound the block arguments of an op whose blocks come next."""
        match op:
            case ir.Launch(grid=extents, body=body) | ir.Parallel(extents=extents, body=body):
                for arg, extent in zip(body.args, extents, strict=True):
                    self._known[arg] = self._counter(self.of(extent).plus(-1))
            case ir.For(start=start, stop=stop, step=step, body=body):
                by = self.of(step).known
                if by:
                    first, span = self.of(start), self.of(stop) - self.of(start)
                    last = span.plus(-1) if by > 0 else span.times(-1).plus(-1)
                    trips = self._counter(self._floordiv(last, abs(by)))
                    counted = first + trips.times(by)
                    self._known[body.args[0]] = self._fitting(counted, body.args[0].dtype)

    def define(self, op: ir.OpBase) -> None:
        """Work out the results of an op."""
        for result in op.results:
            if not isinstance(result.type, ir.BufferType) and result.type.is_integer:
                made = self._linear(op, result)
                self._known[result] = self._fitting(made, result.type)

    def _atom(
        self,
        low: int,
        high: int,
        lowers: tuple[Linear, ...] = (),
        uppers: tuple[Linear, ...] = (),
        cases: tuple[Linear, ...] = (),
    ) -> Linear:
        if low == high:
            return Linear(low)
        self._count += 1
        return Linear(0, {Atom(self._count, low, high, lowers, uppers, cases): 1})

    def _counter(self, last: Linear) -> Linear:
        """A number from 0 to `last`; where `last` is negative it is never reached."""
        return self._atom(0, max(int(last.high), 0), uppers=(last,))

    def _fitting(self, value: Linear | None, dtype: ir.DType) -> Linear:
        low, high = dtype.limits
        if value is None or value.low < low or value.high > high:
            return self._atom(low, high)
        if len(value.terms) > MOST_TERMS:
            return self._atom(int(value.low), int(value.high))
        return value

    def _linear(self, op: ir.OpBase, result: ir.Value) -> Linear | None:
        match op:
            case ir.Constant(value=value):
                return Linear(int(value))
            case ir.Binary(kind=kind, left=left, right=right):
                return self._binary(kind, self.of(left), self.of(right))
            case ir.Unary(kind="neg", operand=operand):
                return self.of(operand).times(-1)
            case ir.Unary(kind="abs", operand=operand):
                held = self.of(operand)
                return held if held.low >= 0 else self._one_of(held, held.times(-1))
            case ir.Unary(kind="popcount" | "clz"):
                return self._atom(0, result.dtype.bits)
            case ir.Select(then=then, otherwise=otherwise):
                return self._one_of(self.of(then), self.of(otherwise))
            case ir.Cast(operand=operand) if operand.dtype.is_integer:
                return self.of(operand)
            case ir.Cast(operand=operand) if operand.dtype.kind == "bool":
                return self._atom(0, 1)
            case ir.If(then=then, otherwise=otherwise):
                at = op.results.index(result)
                ends = [block.ops[-1] for block in (then, otherwise)]
                values = [end.values[at] for end in ends if isinstance(end, ir.Yield)]
                return self._one_of(*map(self.of, values))
            case _:
                return None

    def _binary(self, kind: str, left: Linear, right: Linear) -> Linear | None:
        number = right.known
        match kind:
            case "add":
                return left + right
            case "sub":
                return left - right
            case "mul":
                return self._product(left, right)
            case "min" | "max":
                return self._extreme(kind, left, right)
            case "floordiv" | "truncdiv" if number and number > 0:
                return self._floordiv(left, number) if self._floors(kind, left) else None
            case "floormod" | "truncmod" if number and number > 0:
                if not self._floors(kind, left):
                    return self._atom(1 - number, number - 1)
                return left - self._floordiv(left, number).times(number)
            case "shl" if number is not None and 0 <= number < 63:
                return left.times(1 << number)
            case "shr" if number is not None and 0 <= number < 63:
                return self._floordiv(left, 1 << number)
            case "shl" | "shr" if left.low >= 0 and self._shifts(right):
                least, most = max(int(right.low), 0), int(right.high)
                if kind == "shl":
                    return self._atom(int(left.low) << least, int(left.high) << most)
                return self._atom(int(left.low) >> most, int(left.high) >> least)
            case "and" if number is not None and number >= 0 and (number + 1) & number == 0:
                return left - self._floordiv(left, number + 1).times(number + 1)
            case "and" if left.low >= 0 or right.low >= 0:
                kept = [int(side.high) for side in (left, right) if side.low >= 0]
                return self._atom(0, min(kept))
            case "or" | "xor" if left.low >= 0 and right.low >= 0:
                return self._atom(0, (1 << int(max(left.high, right.high)).bit_length()) - 1)
            case _:
                return None

    @staticmethod
    def _floors(kind: str, left: Linear) -> bool:
        """Whether the quotient is the one rounded down."""
        return kind.startswith("floor") or left.low >= 0

    @staticmethod
    def _shifts(count: Linear) -> bool:
        """Whether a shift by so many bits is one of whole numbers: between bounds that may hang
        together, as `i - j` of a loop over i and of one inside from 0 to i."""
        if count.high >= SHIFT_LIMIT:
            return False
        return count.low >= 0 or is_nonnegative(count, (), Effort())

    def _product(self, left: Linear, right: Linear) -> Linear:
        for number, other in ((right.known, left), (left.known, right)):
            if number is not None:
                return other.times(number)
        ends = [int(a * b) for a in (left.low, left.high) for b in (right.low, right.high)]
        return self._atom(min(ends), max(ends))

    def _one_of(self, *choices: Linear) -> Linear:
        low, high = min(c.low for c in choices), max(c.high for c in choices)
        return self._atom(int(low), int(high), cases=choices)

    def _extreme(self, kind: str, left: Linear, right: Linear) -> Linear:
        pick, both = (min if kind == "min" else max), (left, right)
        low, high = pick(left.low, right.low), pick(left.high, right.high)
        # Where one side is enough, no case has to be tried.
        limits = {"uppers" if kind == "min" else "lowers": both}
        return self._atom(int(low), int(high), cases=both, **limits)

    def _floordiv(self, value: Linear, by: int) -> Linear:
        whole = {a: f // by for a, f in value.terms.items() if f % by == 0}
        rest = Linear(value.constant % by, {a: f for a, f in value.terms.items() if f % by})
        outside = Linear(value.constant // by, whole)
        key = (by, rest.key())
        if key not in self._quotients:
            low, high = int(rest.low // by), int(rest.high // by)
            upper = rest.times(Fraction(1, by))
            lower = upper.plus(Fraction(-_largest_rest(rest, by), by))
            made = self._atom(low, high, lowers=(lower,), uppers=(upper,))
            self._quotients[key] = made
            self.dividends |= dict.fromkeys(made.terms, rest)
        return outside + self._quotients[key]


def _largest_rest(value: Linear, by: int) -> int:
    """Return the largest remainder of a division: of multiples of 4 by 16 it is 12."""
    factors = [factor for factor in value.terms.values() if isinstance(factor, int)]
    if len(factors) < len(value.terms) or not isinstance(value.constant, int):
        return by - 1
    step = math.gcd(by, *factors)
    return by - step + value.constant % step
