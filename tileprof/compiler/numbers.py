"""Integers of a kernel as numbers, or as arrays over the indices that they depend on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tileprof import ir

from .passes.folding import COMPARE, INTEGER

Number = Any
"""A Python number, or an array with one dimension for each axis, 1 where it does not vary."""


LIMIT = 1 << 17
"""Numbers in one array."""


class Unknown(Exception):
    """A number that only the data decides."""


class TooMany(Unknown):
    """A number that differs in more places than are evaluated."""


def check_size(*numbers: Number) -> None:
    """TooMany where arrays together have more than `LIMIT` places."""
    shapes = [n.shape for n in numbers if isinstance(n, np.ndarray)]
    if len(shapes) > 1 and math.prod(map(max, zip(*shapes))) > LIMIT:
        raise TooMany


def compute(op: ir.OpBase | None, number: Callable[[ir.Value], Number]) -> Number:
    """The result of a scalar op whose operands `number` gives; Unknown where data decides it."""
    if not isinstance(op, _KNOWN):
        raise Unknown
    held = [number(v) for v in op.operand_values()]
    check_size(*held)
    match op:
        case ir.Constant(value=value):
            return value
        case ir.Binary(kind=kind) if kind in _BINARY:
            return _BINARY[kind](*held)
        case ir.Compare(kind=kind):
            return COMPARE[kind](*held)
        case ir.Unary(kind="neg"):
            return -held[0]
        case ir.Unary(kind="not", operand=operand) if operand.dtype.kind == "bool":
            return np.logical_not(held[0])
        case ir.Select():
            return _selected(*held)
        case ir.Cast(operand=operand, dtype=dtype) if dtype.is_integer and operand.dtype.is_integer:
            return held[0]
        case _:
            raise Unknown


_KNOWN = (ir.Constant, ir.Binary, ir.Compare, ir.Unary, ir.Select, ir.Cast)


def _selected(condition: Number, then: Number, otherwise: Number) -> Number:
    if isinstance(condition, np.ndarray):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


def _truncdiv(a: Number, b: Number) -> Number:
    quotient = abs(a) // abs(b)
    if _array(a, b):
        return np.where((a < 0) == (b < 0), quotient, -quotient)
    return quotient if (a < 0) == (b < 0) else -quotient


def _array(a: Number, b: Number) -> bool:
    return isinstance(a, np.ndarray) or isinstance(b, np.ndarray)


def _extreme(pick: Callable[[Any, Any], Any], whole: Callable[..., Any]) -> Callable[..., Number]:
    def combine(a: Number, b: Number) -> Number:
        return whole(a, b) if _array(a, b) else pick(a, b)

    return combine


_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    **INTEGER,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - b * _truncdiv(a, b),
    "min": _extreme(min, np.minimum),
    "max": _extreme(max, np.maximum),
}
