"""Integers of a kernel as numbers, or as arrays over the indices that they depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileprof import ir

__all__ = ["Number", "Unknown", "compute"]

Number = Any
"""A Python number, or an array with one dimension for each axis, 1 where it does not vary."""


class Unknown(Exception):
    """A number that only the data decides."""


def compute(op: ir.OpBase | None, number: Callable[[ir.Value], Number]) -> Number:
    """The result of a scalar op whose operands `number` gives; Unknown where data decides it."""
    match op:
        case ir.Constant(value=value):
            return value
        case ir.Binary(kind=kind, left=left, right=right) if kind in _BINARY:
            return _BINARY[kind](number(left), number(right))
        case ir.Compare(kind=kind, left=left, right=right):
            return _COMPARE[kind](number(left), number(right))
        case ir.Unary(kind="neg", operand=operand):
            return -number(operand)
        case ir.Unary(kind="not", operand=operand) if operand.dtype.kind == "bool":
            return np.logical_not(number(operand))
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            return _selected(number(condition), number(then), number(otherwise))
        case ir.Cast(operand=operand, dtype=dtype) if dtype.is_integer and operand.dtype.is_integer:
            return number(operand)
        case _:
            raise Unknown


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
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: a - b * _truncdiv(a, b),
    "min": _extreme(min, np.minimum),
    "max": _extreme(max, np.maximum),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}
_COMPARE: dict[str, Callable[[Number, Number], Number]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
