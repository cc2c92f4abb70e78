"""Differences of index expressions: is `(k + 1) * 64 - k * 64` a number?

In: two indices as they are traced.  Out: their difference, where it is one number.  Traced code has
an expression as often as the author wrote it, so terms that are computed alike count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.ir.sums import Sum, sum_of

Key = tuple[frozenset[tuple[Hashable, int]], int]
Loads = Mapping[ir.Value, Hashable]
"""Loads that give the same number have the same key."""


def difference(a: ir.Value, b: ir.Value, loads: Loads | None = None) -> int | None:
    """Return `a - b` where it is one number for all values of what they are made of; None
    otherwise."""
    terms, constant = _key(sum_of(a, _uncast).plus(sum_of(b, _uncast), -1), loads or {})
    return None if terms else constant


def equal_loads(ops: Sequence[ir.OpBase]) -> Loads:
    """Return the loads among some ops, alike where nothing writes their buffer in between."""
    found: dict[ir.Value, Hashable] = {}
    written: dict[ir.Value, int] = {}
    for op in ops:
        if isinstance(op, ir.Load):
            at = tuple(_key(sum_of(i, _uncast), found) for i in op.indices)
            found[op.result] = ("load", op.buffer, at, written.get(base(op.buffer), 0))
        for access in op.all_accesses():
            if access.writes:
                buffer = base(access.value)
                written[buffer] = written.get(buffer, 0) + 1
    return found


def _uncast(value: ir.Value) -> ir.Value:
    """Return the integer behind casts to other integer types."""
    match value.owner:
        case ir.Cast(operand=inner) if inner.dtype.is_integer and value.dtype.is_integer:
            return _uncast(inner)
        case _:
            return value


def _key(value: Sum, loads: Loads) -> Key:
    """Return what is equal for sums that are computed alike."""
    factors = Counter[Hashable]()
    for term, factor in value.terms.items():
        factors[_term_key(term, loads)] += factor
    return frozenset((key, factor) for key, factor in factors.items() if factor), value.constant


def _term_key(term: ir.Value, loads: Loads) -> Hashable:
    match term.owner:
        case ir.Binary(kind=kind, left=left, right=right):
            keys = _key(sum_of(left, _uncast), loads), _key(sum_of(right, _uncast), loads)
            return kind, frozenset(keys) if kind == "mul" else keys
        case _:
            return loads.get(term, term)
