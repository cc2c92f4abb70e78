"""Arithmetic on constants, computed as the program would, or not at all.

Folded is only what every device computes alike: wrap-around integers, and the float operations that
IEEE 754 rounds exactly.  A division by zero is left to fail where it runs, and what gives a NaN is
left alone because its sign and payload differ between machines.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tileprof import ir

Number = bool | int | float


def wrap(value: int, dtype: ir.DType) -> int:
    """An integer as a type of its width holds it."""
    span = 1 << dtype.bits
    low = value & (span - 1)
    return low - span if dtype.kind != "uint" and low >= span >> 1 else low


def exact(value: Number, dtype: ir.DType) -> Number | None:
    """A constant's number as its type holds it; None where only the device says how it rounds."""
    if dtype.kind == "bool":
        return bool(value)
    if not dtype.is_float:
        return wrap(int(value), dtype)
    rounded = float(_rounded(np.float64(value), dtype))
    # Through float32, double precision may round twice on the way to a narrow type.
    known = dtype.bits >= 32 or rounded == float(value)
    return rounded if known and not math.isnan(rounded) else None


def _rounded(value: Any, dtype: ir.DType) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype.to_numpy())[()]


def fold(op: ir.OpBase, numbers: list[Number]) -> Number | None:
    """The result of a scalar op on constants (`exact` ones); None where it must not be folded."""
    match op:
        case ir.Binary(kind=kind, left=left):
            return _binary(kind, numbers[0], numbers[1], left.dtype)
        case ir.Unary(kind=kind, operand=operand):
            return _unary(kind, numbers[0], operand.dtype)
        case ir.Compare(kind=kind):
            return bool(COMPARE[kind](numbers[0], numbers[1]))
        case ir.Select():
            return numbers[1] if numbers[0] else numbers[2]
        case ir.Cast(operand=operand, dtype=dtype):
            return _cast(numbers[0], operand.dtype, dtype)
        case _:
            return None


def _binary(kind: str, a: Number, b: Number, dtype: ir.DType) -> Number | None:
    if dtype.is_float:
        return _float_binary(kind, float(a), float(b), dtype)
    function = INTEGER.get(kind)
    if function is None:
        return None
    if dtype.kind == "bool":
        return bool(function(a, b)) if kind in ("and", "or", "xor") else None
    made = function(int(a), int(b)) if _defined(kind, int(b), dtype) else None
    if made is None or (kind in _DIVISIONS and wrap(made, dtype) != made):
        return None
    return wrap(made, dtype)


def _defined(kind: str, b: int, dtype: ir.DType) -> bool:
    if kind in ("shl", "shr"):
        return 0 <= b < dtype.bits
    return b != 0 or kind not in _DIVISIONS


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncmod(a: int, b: int) -> int:
    return a - b * _truncdiv(a, b)


_DIVISIONS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod"})
INTEGER: dict[str, Callable[[Any, Any], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


def _float_binary(kind: str, a: float, b: float, dtype: ir.DType) -> float | None:
    function = _FLOAT.get(kind)
    # NumPy may take either of two zeros.
    if function is None or (kind in ("min", "max") and a == b):
        return None
    return _computed(function, dtype, a, b)


def _computed(function: Callable[..., Any], dtype: ir.DType, *values: float) -> float | None:
    """A function of floats, rounded to their type; None for NaN."""
    work = np.float64 if dtype.bits == 64 else np.float32
    with np.errstate(all="ignore"):
        made = float(_rounded(function(*map(work, values)), dtype))
    return None if math.isnan(made) else made


_UNARY: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.absolute,
}
_PREDICATES: dict[str, Callable[[float], bool]] = {
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
}


def _unary(kind: str, value: Number, dtype: ir.DType) -> Number | None:
    if kind in _PREDICATES:
        return _PREDICATES[kind](float(value))
    if dtype.is_float:
        function = _UNARY.get(kind)
        return None if function is None else _computed(function, dtype, float(value))
    match kind:
        case "not":
            return not value if dtype.kind == "bool" else wrap(~int(value), dtype)
        case "neg" if dtype.is_integer:
            return wrap(-int(value), dtype)
        case "abs" if dtype.is_integer:
            return wrap(abs(int(value)), dtype)
        case _:
            return None


def _cast(value: Number, source: ir.DType, target: ir.DType) -> Number | None:
    if target.kind == "bool":
        return value != 0
    if target.is_float:
        # One rounding at most: from double or an integer to a narrow type only where it is exact.
        if target.bits >= 32 or (source.bits <= 32 and source.is_float):
            made = float(_rounded(source.to_numpy().type(value), target))
            return None if math.isnan(made) else made
        return exact(value, target)
    if not source.is_float:
        return wrap(int(value), target)
    whole = math.trunc(value) if math.isfinite(value) else None
    return whole if whole is not None and wrap(whole, target) == whole else None


_WITHIN = {
    "float8_e4m3": ("float16", "bfloat16", "float32", "float64"),
    "float8_e5m2": ("float16", "bfloat16", "float32", "float64"),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}


def holds_every(wide: ir.DType, narrow: ir.DType) -> bool:
    """Whether each value of `narrow` survives a cast to `wide` and back."""
    if wide == narrow or narrow.kind == "bool":
        return True
    if narrow.is_float:
        return wide.name in _WITHIN.get(narrow.name, ())
    return wide.is_integer and wide.bits >= narrow.bits
