"""Differences of index expressions: is `(k + 1) * 64 - k * 64` a number?

In: two indices as they are traced.  Out: their difference, where it is one number.  Traced code has
an expression as often as the author wrote it, so terms that are computed alike count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from tileprof import ir
from tileprof.ir.sums import Sum, sum_of

Key = tuple[frozenset[tuple[Hashable, int]], int]


def difference(a: ir.Value, b: ir.Value) -> int | None:
    """Return `a - b` where it is one number for all values of what they are made of; None
    otherwise."""
    terms, constant = _key(sum_of(a, _uncast).plus(sum_of(b, _uncast), -1))
    return None if terms else constant


def _uncast(value: ir.Value) -> ir.Value:
    """Return the integer behind casts to other integer types."""
    match value.owner:
        case ir.Cast(operand=inner) if inner.dtype.is_integer and value.dtype.is_integer:
            return _uncast(inner)
        case _:
            return value


def _key(value: Sum) -> Key:
    """Return what is equal for sums that are computed alike."""
    factors = Counter[Hashable]()
    for term, factor in value.terms.items():
        factors[_term_key(term)] += factor
    return frozenset((key, factor) for key, factor in factors.items() if factor), value.constant


def _term_key(term: ir.Value) -> Hashable:
    match term.owner:
        case ir.Binary(kind=kind, left=left, right=right):
            keys = _key(sum_of(left, _uncast)), _key(sum_of(right, _uncast))
            return kind, frozenset(keys) if kind == "mul" else keys
        case _:
            return term
