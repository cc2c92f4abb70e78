"""Numbers that are known while a kernel is traced: what Python itself computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tileprof import ir

Number = bool | int | float


def is_number(value: Any) -> bool:
    """Return whether `value` is a Python or NumPy number."""
    return isinstance(value, (int, float, np.generic))


def as_number(value: Any) -> Number:
    """Return a Python number for a Python or NumPy one."""
    held: Number = value.item() if isinstance(value, np.generic) else value
    return held


def range_of(kind: ir.DType) -> tuple[Number, Number]:
    """Return the least and the greatest finite value of a type."""
    if kind.kind == "bool":
        return False, True
    if kind.is_float:
        import ml_dtypes

        finfo: Any = ml_dtypes.finfo
        info = finfo(kind.to_numpy())
        return float(info.min), float(info.max)
    return kind.limits


def fits(value: Number, kind: ir.DType) -> bool:
    """Return whether an integer is in the range of an integer type; any number fits a float."""
    if kind.is_float:
        return True
    low, high = range_of(kind)
    return low <= value <= high


def cast_number(value: Number, kind: ir.DType) -> Number:
    """Return a number converted as the op `cast` converts."""
    value = as_number(value)
    if kind.kind == "bool":
        return bool(value)
    if not kind.is_float and isinstance(value, float):
        value = math.trunc(value)
    with np.errstate(over="ignore"):
        made = np.asarray(value).astype(kind.to_numpy())
    held: Number = made.astype(np.float64).item() if kind.is_float else made.item()
    return held


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x, "not": lambda x: ~x, "abs": abs, "exp": math.exp, "exp2": math.exp2,
    "exp10": lambda x: 10.0**x, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "erf": math.erf, "sigmoid": _sigmoid,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    "isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite,
    "popcount": lambda x: int(x).bit_count(), "clz": lambda x: 32 - int(x).bit_length(),
}  # fmt: skip
"""Value of each scalar function for a number known at compile time (`clz` of 32 bits)."""
