"""Bounds of whole numbers: fixed ones, and those over the points of a loop nest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tileprof import ir

from .buffers import Extent, paren

Interval = tuple[int | None, int | None]
"""Lowest and highest value; None where it is not known."""
UNKNOWN: Interval = (None, None)


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _negate(a: Interval) -> Interval:
    return (None if a[1] is None else -a[1], None if a[0] is None else -a[0])


def _times(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        products = [x * y for x in a for y in b]  # type: ignore[operator]  # no None is left
        return min(products), max(products)
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None
    return UNKNOWN


def interval(
    value: ir.Value, known: Mapping[ir.Value, Interval], found: dict[ir.Value, Interval]
) -> Interval:
    """Return fixed bounds of an `index`, from those of loop variables and block indices.

    Only `index` arithmetic is followed: it does not wrap.  `found` holds the bounds of operands,
    which many values may share; calls with an equal `known` share it.
    """
    if value in known:
        return known[value]
    if value not in found:
        match value.owner:
            case ir.Constant(value=number) if value.dtype.is_integer:
                found[value] = int(number), int(number)
            case ir.Cast(operand=operand) if value.dtype.kind == "index" and _is_narrow(operand):
                found[value] = _of_number(operand, 1)
            case ir.Binary(kind=kind, left=left, right=right) if value.dtype.kind == "index":
                divided = _divided(kind, left, right)
                if divided is not None:
                    kind, left, right = "floormod", *divided
                a, b = interval(left, known, found), interval(right, known, found)
                low, high = _binary(kind, a, b)
                found[value] = _bounded(low), _bounded(high)
            case ir.Select(then=then, otherwise=otherwise) if value.dtype.kind == "index":
                found[value] = _either(
                    interval(then, known, found), interval(otherwise, known, found)
                )
            case _:
                found[value] = UNKNOWN
    return found[value]


def _is_narrow(value: ir.Value) -> bool:
    """Whether a value is a whole number of at most 32 bits."""
    return value.dtype.is_integer and value.dtype.kind != "index" and value.dtype.bits <= 32


_STEPS = 6
"""Operations that are followed from a number that may wrap around to what it is computed from."""


def _of_number(value: ir.Value, most: int) -> tuple[int, int]:
    """Return bounds of a number whose arithmetic may wrap around: those of its type, and closer
    ones where its last `most` operations cannot leave it."""
    low, high = value.dtype.limits
    least: int | None
    greatest: int | None
    match value.owner:
        case ir.Constant(value=number):
            return int(number), int(number)
        case ir.Cast(operand=operand) if most and _is_narrow(operand):
            least, greatest = _of_number(operand, most - 1)
        case ir.Binary(kind=kind, left=left, right=right) if most:
            least, greatest = _binary(kind, _of_number(left, most - 1), _of_number(right, most - 1))
        case _:
            return low, high
    if least is None or greatest is None or least < low or greatest > high:
        return low, high
    return least, greatest


_EXACT = 1 << 24
"""Whole numbers up to this have a float32 that is the same number."""


def is_exact(value: ir.Value) -> bool:
    """Whether a whole number of at most 32 bits is surely a float32 without rounding."""
    if not _is_narrow(value):
        return False
    return max(map(abs, _of_number(value, _STEPS))) <= _EXACT


def _is_counted(a: Interval) -> bool:
    """Whether a value is surely not negative."""
    return a[0] is not None and a[0] >= 0


def _divided(kind: str, left: ir.Value, right: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """Return dividend and divisor where a difference is the rest of a division, `a - a // b * b`;
    None for everything else."""
    match right.owner:
        case ir.Binary(kind="mul", left=quotient, right=by) if kind == "sub":
            match quotient.owner:
                case ir.Binary(kind="floordiv", left=of, right=divisor):
                    return (of, by) if of is left and divisor is by else None
    return None


def _either(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, None if a[1] is None or b[1] is None else max(a[1], b[1])


def _bounded(bound: int | None) -> int | None:
    """Return a bound that fits 64 bits; longer ones say nothing and are slow to multiply."""
    return None if bound is None or bound.bit_length() > 64 else bound


def _binary(kind: str, a: Interval, b: Interval) -> Interval:
    match kind:
        case "add":
            return _add(a[0], b[0]), _add(a[1], b[1])
        case "sub":
            c = _negate(b)
            return _add(a[0], c[0]), _add(a[1], c[1])
        case "mul":
            return _times(a, b)
        case "floordiv" if b[0] is not None and b[0] == b[1] and b[0] > 0:
            return tuple(None if x is None else x // b[0] for x in a)  # type: ignore[return-value]
        case "floordiv" if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
            return 0, None if a[1] is None else a[1] // b[0]
        case "floordiv" if _is_counted(a) and _is_counted(b):
            # What is divided by 0 is 0.
            return 0, a[1]
        case "floormod" if b[0] is not None and b[0] > 0:
            highs = [x for x in (_add(b[1], -1), a[1] if _is_counted(a) else None) if x is not None]
            return 0, min(highs, default=None)
        case "floormod" if _is_counted(a) and _is_counted(b):
            return 0, a[1]
        case "shl" if _is_counted(a):
            # A shift by less than 0 leaves nothing.
            if a[1] is None or b[1] is None or b[1] >= 64:
                return 0, None
            return 0, a[1] << max(b[1], 0)
        case "shr" if b[0] is not None and b[0] == b[1] and 0 <= b[0] < 64:
            return tuple(None if x is None else x >> b[0] for x in a)  # type: ignore[return-value]
        case "and" if _is_counted(a) or _is_counted(b):
            highs = [each[1] for each in (a, b) if _is_counted(each) and each[1] is not None]
            return 0, min(highs, default=None)
        case "or" | "xor" if _is_counted(a) and _is_counted(b):
            if a[1] is None or b[1] is None:
                return 0, None
            return 0, (1 << max(a[1], b[1]).bit_length()) - 1
        case "min":
            highs = [x for x in (a[1], b[1]) if x is not None]
            low = None if a[0] is None or b[0] is None else min(a[0], b[0])
            return low, min(highs, default=None)
        case "max":
            lows = [x for x in (a[0], b[0]) if x is not None]
            high = None if a[1] is None or b[1] is None else max(a[1], b[1])
            return max(lows, default=None), high
        case _:
            return UNKNOWN


_CLAMPS = 6
"""Minima and maxima of one value that are followed; a clamp has two."""


def clamped(value: ir.Value, most: int = _CLAMPS) -> tuple[float, float]:
    """Return bounds of a float that minima and maxima with constants keep.

    They give the other operand for a NaN, so a value with a bound is none.
    """
    match value.owner:
        case ir.Constant(value=number) if value.dtype.is_float and number == number:
            return float(number), float(number)
        case ir.Binary(kind="min" | "max" as kind, left=left, right=right) if most:
            lows, highs = zip(*(clamped(each, most - 1) for each in (left, right)))
            if kind == "min":
                return min(lows), min(highs)
            return max(lows), max(highs)
    return -math.inf, math.inf


_LARGEST = {"float8_e4m3": 464.0, "float8_e5m2": 61439.0}
"""Largest numbers that are not too large for a type once they are rounded to it: in e4m3 halfway
to what would be the next, which is a tie, in e5m2 below that."""


def fits(value: ir.Value, dtype: ir.DType) -> bool:
    """Whether a float surely stays finite as a number of 8 bits."""
    if dtype.name not in _LARGEST:
        return False
    low, high = clamped(value)
    return -_LARGEST[dtype.name] <= low and high <= _LARGEST[dtype.name]


_FINITE = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}
"""Largest numbers of a type."""


def saturated(value: ir.Value, dtype: ir.DType) -> ir.Value | None:
    """Return the float of which a value is the nearest number that a type of 8 bits has: the
    largest of its sign where it is too large, NaN where it is NaN.  None where it is anything else.

        select x > 448, 448, (select x < -448, -448, x)        →        x
    """
    most = _FINITE.get(dtype.name)
    if most is None:
        return None
    outer = _limited(value, most)
    inner = None if outer is None else _limited(outer[0], most)
    if outer is None or inner is None or outer[1] == inner[1]:
        return None
    # The outer comparison may be of what the inner one left.
    return inner[0] if outer[2] in (outer[0], inner[0]) and inner[2] is inner[0] else None


def _limited(value: ir.Value, most: float) -> tuple[ir.Value, bool, ir.Value] | None:
    """Return what a select takes where a number is within a bound, whether that is the upper one,
    and the number that is compared."""
    match value.owner:
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            bound = ir.constant_of(then)
            match condition.owner:
                case ir.Compare(kind="gt" | "ge" | "lt" | "le" as kind, left=left, right=right):
                    limit = ir.constant_of(right)
                    upper = kind in ("gt", "ge")
                    if bound == limit == (most if upper else -most):
                        return otherwise, upper, left
    return None


@dataclass(frozen=True)
class Sum:
    """`constant + Σ factor · text`, the texts being C++ of whole numbers."""

    constant: int = 0
    terms: Mapping[str, int] = field(default_factory=dict)

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """The sum with `factor` times another."""
        terms = dict(self.terms)
        for text, each in other.terms.items():
            terms[text] = terms.get(text, 0) + factor * each
        return Sum(self.constant + factor * other.constant, {t: f for t, f in terms.items() if f})

    def __str__(self) -> str:
        parts = []
        for text, factor in self.terms.items():
            sign = "-" if factor < 0 else "+"
            shown = text if abs(factor) == 1 else f"{paren(text)} * {abs(factor)}"
            parts.append(f"{sign} {paren(shown) if factor == -1 else shown}")
        if self.constant or not parts:
            parts.append(f"{'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        first, *rest = parts
        first = first[2:] if first[0] == "+" else "-" + first[2:]
        return " ".join([first, *rest])


@dataclass(frozen=True)
class Comparison:
    """A condition of whole numbers; as text it is one in C++."""

    left: Sum
    sign: Literal["<", "<=", ">="]
    right: Sum | Extent

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {paren(str(self.right))}"


Ends = tuple[Sum, Sum]
"""Lowest and highest value over a nest of loops."""
Find = Callable[[ir.Value], Ends | None]
"""The ends of a value that is no sum, product or difference; None where they are not known."""


_MOST_TERMS = 64
"""Terms of the longest sum that is followed; indices of tiles have fewer than ten."""


def ends(value: ir.Value, find: Find, found: dict[ir.Value, Ends | None]) -> Ends | None:
    """Return the ends of an `index` as sums of what `find` knows, or None where they are unknown.

    `found` holds the ends of operands, which many values may share; calls with one `find` share it.
    """
    if value not in found:
        known = find(value)
        known = known if known is not None else _derived(value, find, found)
        found[value] = known if known and all(map(_is_short, known)) else None
    return found[value]


def _is_short(sum: Sum) -> bool:
    """Whether a sum has few terms and numbers of 64 bits, which C++ can hold."""
    numbers = (sum.constant, *sum.terms.values())
    return len(sum.terms) <= _MOST_TERMS and all(n.bit_length() < 64 for n in numbers)


def _derived(value: ir.Value, find: Find, found: dict[ir.Value, Ends | None]) -> Ends | None:
    match value.owner:
        case ir.Binary(kind="add" | "sub" | "mul" as kind, left=left, right=right) if _exact(value):
            a, b = ends(left, find, found), ends(right, find, found)
            if a is None or b is None:
                return None
            if kind == "mul":
                return _scaled(a, b) or _scaled(b, a)
            if kind == "add":
                return a[0].plus(b[0]), a[1].plus(b[1])
            return a[0].plus(b[1], -1), a[1].plus(b[0], -1)
    return None


def _scaled(by: Ends, of: Ends) -> Ends | None:
    if by[0] != by[1] or by[0].terms:
        return None
    factor = by[0].constant
    low, high = (Sum().plus(e, factor) for e in of)
    return (low, high) if factor >= 0 else (high, low)


def _exact(value: ir.Value) -> bool:
    return value.dtype.kind == "index"
