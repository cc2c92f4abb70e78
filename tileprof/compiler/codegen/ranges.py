"""What is known about whole numbers: fixed bounds, and bounds over the points of a loop nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tileprof import ir

__all__ = ["Interval", "Linear", "interval", "linear"]

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


def interval(value: ir.Value, known: Mapping[ir.Value, Interval]) -> Interval:
    """Fixed bounds of an `index`, from those of loop variables and block indices.

    Only `index` arithmetic is followed: it does not wrap.
    """
    if value in known:
        return known[value]
    match value.owner:
        case ir.Constant(value=number) if value.dtype.is_integer:
            return int(number), int(number)
        case ir.Binary(kind=kind, left=left, right=right) if value.dtype.kind == "index":
            return _binary(kind, interval(left, known), interval(right, known))
        case _:
            return UNKNOWN


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
        case "floormod" if b[0] is not None and b[0] > 0:
            return 0, None if b[1] is None else b[1] - 1
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


@dataclass
class Linear:
    """`constant + Σ factor · value`."""

    constant: int = 0
    terms: dict[ir.Value, int] = field(default_factory=dict)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum with `factor` times another."""
        terms = dict(self.terms)
        for value, each in other.terms.items():
            terms[value] = terms.get(value, 0) + factor * each
        return Linear(
            self.constant + factor * other.constant, {v: f for v, f in terms.items() if f}
        )


def linear(value: ir.Value) -> Linear:
    """An `index` as a sum; what is no sum stands as a value of its own."""
    match value.owner:
        case ir.Constant(value=number) if value.dtype.is_integer:
            return Linear(int(number))
        case ir.Binary(kind="add" | "sub" as kind, left=left, right=right) if _exact(value):
            return linear(left).plus(linear(right), 1 if kind == "add" else -1)
        case ir.Binary(kind="mul", left=left, right=right) if _exact(value):
            a, b = linear(left), linear(right)
            if not a.terms:
                return Linear().plus(b, a.constant)
            if not b.terms:
                return Linear().plus(a, b.constant)
    return Linear(0, {value: 1})


def _exact(value: ir.Value) -> bool:
    return value.dtype.kind == "index"
