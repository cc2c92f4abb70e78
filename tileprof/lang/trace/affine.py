"""Differences of index expressions: is `(k + 1) * 64 - k * 64` a number?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from tileprof import ir
from tileprof.ir.memory import base

Terms = dict[Hashable, int]
CONSTANT: Hashable = ()
"""Key of the term without a value."""


Loads = Mapping[ir.Value, Hashable]
"""Loads that give the same number have the same key."""


def difference(a: ir.Value, b: ir.Value, loads: Loads | None = None) -> int | None:
    """`a - b` where it is one number for all values of what they are made of; None otherwise."""
    left, right = terms(a, loads or {}), terms(b, loads or {})
    rest = {k: left.get(k, 0) - right.get(k, 0) for k in left.keys() | right.keys()}
    constant = rest.pop(CONSTANT, 0)
    return None if any(rest.values()) else constant


def equal_loads(ops: Sequence[ir.OpBase]) -> Loads:
    """Return the loads among some ops, alike where nothing writes their buffer in between."""
    found: dict[ir.Value, Hashable] = {}
    written: dict[ir.Value, int] = {}
    for op in ops:
        if isinstance(op, ir.Load):
            at = tuple(_key(terms(i, found)) for i in op.indices)
            found[op.result] = ("load", op.buffer, at, written.get(base(op.buffer), 0))
        for access in op.all_accesses():
            if access.writes:
                buffer = base(access.value)
                written[buffer] = written.get(buffer, 0) + 1
    return found


def terms(value: ir.Value, loads: Loads) -> Terms:
    """Return a sum of terms with factors; the constant is under `()`.

    What is not a sum, a difference or a product with a number is a term of its own, equal to
    another one that computes the same from the same values.
    """
    op = value.owner
    match op:
        case ir.Constant(value=number):
            return {CONSTANT: int(number)}
        case ir.Cast(operand=inner) if inner.dtype.is_integer and value.dtype.is_integer:
            return terms(inner, loads)
        case ir.Binary(kind="add", left=left, right=right):
            return _sum(terms(left, loads), terms(right, loads), 1)
        case ir.Binary(kind="sub", left=left, right=right):
            return _sum(terms(left, loads), terms(right, loads), -1)
        case ir.Binary(kind="mul", left=left, right=right):
            a, b = terms(left, loads), terms(right, loads)
            for factor, other in ((a, b), (b, a)):
                if factor.keys() <= {CONSTANT}:
                    return {k: v * factor.get(CONSTANT, 0) for k, v in other.items()}
            return {("mul", frozenset((_key(a), _key(b)))): 1}
        case ir.Binary(kind=kind, left=left, right=right):
            return {(kind, _key(terms(left, loads)), _key(terms(right, loads))): 1}
        case _:
            return {loads.get(value, value): 1}


def _sum(a: Terms, b: Terms, sign: int) -> Terms:
    return {k: a.get(k, 0) + sign * b.get(k, 0) for k in a.keys() | b.keys()}


def _key(of: Terms) -> Hashable:
    return frozenset((k, v) for k, v in of.items() if v)
