"""Index expressions as sums: are two indices apart by a number that is known?

    (k + 1) * 64 - j      {k: 64, j: -1} + 64
    k * j + 2             {k * j: 1} + 2

In: an integer value.  Out: its terms, with the factor of each, and a constant.  A term is a value
that is no sum, difference or product with a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .core import Value
from .scalar import Binary, Constant


@dataclass(frozen=True, slots=True)
class Sum:
    """`constant` + Σ factor · value; no factor is 0, so that equal sums have equal fields."""

    terms: Mapping[Value, int] = field(default_factory=dict)
    constant: int = 0

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return this sum and another one, the latter `factor` times."""
        terms = dict(self.terms)
        for value, each in other.terms.items():
            terms[value] = terms.get(value, 0) + factor * each
        return Sum({v: f for v, f in terms.items() if f}, self.constant + factor * other.constant)


def sum_of(value: Value, behind: Callable[[Value], Value] = lambda value: value) -> Sum:
    """Return an index as a sum.

    behind: gives the value that is taken apart in place of another one, as for casts that the
    caller looks through.
    """
    value = behind(value)
    match value.owner:
        case Constant(value=number) if value.dtype.is_integer:
            return Sum({}, int(number))
        case Binary(kind="add" | "sub" as kind, left=left, right=right):
            return sum_of(left, behind).plus(sum_of(right, behind), 1 if kind == "add" else -1)
        case Binary(kind="mul", left=left, right=right):
            parts = sum_of(left, behind), sum_of(right, behind)
            for part, other in (parts, parts[::-1]):
                if not other.terms:
                    return Sum().plus(part, other.constant)
    return Sum({value: 1})
