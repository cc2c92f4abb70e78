"""The meaning of scalar arithmetic, one line an operation.

Integers wrap around at their width.  Narrow floats are computed in float32 and rounded after each
operation.  Float exceptions are quiet: the caller holds `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.ir.scalar import PREDICATES

from .convert import narrow, wide
from .lanes import Array, Scalar, tidy

Function = Callable[..., Any]

DIVISIONS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod"})


def _truncdiv(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        return np.asarray(np.trunc(np.divide(a, b)))
    quotient = np.floor_divide(a, b)
    inexact = np.multiply(quotient, b) != a
    return np.asarray(np.add(quotient, (inexact & ((a < 0) != (b < 0))).astype(quotient.dtype)))


def _shift(by: Function) -> Function:
    """Shifts by the width or more move every bit out, whatever the machine does."""

    def shift(a: Array, b: Array) -> Any:
        width = np.asarray(a).dtype.itemsize * 8
        gone = by(by(a, np.asarray(b).dtype.type(width - 1)), np.asarray(b).dtype.type(1))
        fits = (b >= 0) & (b < width)
        return np.where(fits, by(a, np.where(fits, b, 0).astype(np.asarray(b).dtype)), gone)

    return shift


def _lesser(a: Array, b: Array) -> Array:
    """The smaller one; the other operand for a NaN, and the zero with a minus."""
    return _ordered(np.fmin(a, b), a, b, lambda x, y: -(-x + -y))


def _greater(a: Array, b: Array) -> Array:
    """The greater one; the other operand for a NaN, and the zero without a minus."""
    return _ordered(np.fmax(a, b), a, b, lambda x, y: x + y)


def _ordered(made: Array, a: Array, b: Array, zero: Function) -> Array:
    if not np.issubdtype(np.asarray(made).dtype, np.floating):
        return made
    return np.where((a == 0) & (b == 0), zero(a, b), made)


BINARY: Mapping[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncdiv": _truncdiv,
    "truncmod": np.fmod,
    "min": _lesser,
    "max": _greater,
    "pow": np.power,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
}

INDEX: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "min": min,
    "max": max,
}
"""The same on uniform indices, which are Python ints."""

COMPARE: Mapping[str, Function] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


def binary(kind: str, left: Scalar, right: Scalar, dtype: ir.DType) -> Scalar:
    """`ir.Binary`; divisors of integers are not zero."""
    if type(left) is int and type(right) is int and kind in INDEX:
        made = INDEX[kind](left, right)
        return made if -(1 << 63) <= made < 1 << 63 else (made + (1 << 63)) % (1 << 64) - (1 << 63)
    if dtype.is_float:
        return narrow(BINARY[kind](wide(left, dtype), wide(right, dtype)), dtype)
    held = dtype.to_numpy()
    return tidy(
        BINARY[kind](_exact(left, held), _exact(right, held)).astype(held, copy=False), dtype
    )


def _exact(value: Scalar, dtype: np.dtype[Any]) -> Array:
    """Return an integer scalar as NumPy holds it: a Python int would be computed without a
    width."""
    return np.asarray(value, dtype)


def compare(kind: str, left: Scalar, right: Scalar, dtype: ir.DType) -> Scalar:
    """`ir.Compare`."""
    return COMPARE[kind](wide(left, dtype), wide(right, dtype))


def _popcount(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.asarray(np.unpackbits(bits, axis=-1).sum(-1))


def _clz(x: Array) -> Array:
    width = x.dtype.itemsize * 8
    smeared = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").reshape(x.shape)
    for by in (1, 2, 4, 8, 16, 32):
        if by < width:
            smeared = smeared | (smeared >> smeared.dtype.type(by))
    return width - _popcount(np.asarray(smeared))


def _in_double(function: Function) -> Function:
    """Compute in float64, for functions that NumPy has in no better float32 version."""
    return lambda x: function(np.asarray(x, np.float64)).astype(np.asarray(x).dtype)


_erf = np.frompyfunc(math.erf, 1, 1)

UNARY: Mapping[str, Function] = {
    "neg": np.negative,
    "abs": np.absolute,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": _in_double(lambda x: np.power(10.0, x)),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _in_double(lambda x: 1.0 / np.sqrt(x)),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": _in_double(lambda x: np.asarray(_erf(x), np.float64)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "not": np.invert,
    "popcount": _popcount,
    "clz": _clz,
}


def unary(kind: str, value: Scalar, dtype: ir.DType) -> Scalar:
    """`ir.Unary` on a value of type `dtype`."""
    if dtype.is_float:
        made = UNARY[kind](wide(value, dtype))
        return made if kind in PREDICATES else narrow(made, dtype)
    held = dtype.to_numpy()
    return tidy(np.asarray(UNARY[kind](_exact(value, held))).astype(held)[()], dtype)


_SMALLEST_SPLIT = 2.0**-960
"""Smallest product of float64 whose rounding error is a normal number: 2**-1022 times 2**53, and
room for the product of the lower halves."""


def fma(a: Scalar, b: Scalar, c: Scalar, dtype: ir.DType) -> Scalar:
    """`a * b + c` rounded once: the sum is rounded to odd in float64, then to the type."""
    x, y, z = (np.asarray(wide(v, dtype)).astype(np.float64) for v in (a, b, c))
    if dtype.bits < 64:
        total, missed = _two_sum(x * y, z)
        return narrow(np.where(np.isfinite(total), _odd(total, missed), total), dtype)
    high, low = _two_product(x, y)
    top, rest = _two_sum(z, low)
    total, error = _two_sum(high, top)
    exact = total + _odd(*_two_sum(rest, error))
    # Splitting overflows next to the largest numbers, and its errors vanish next to the smallest.
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    inexact = finite & (~np.isfinite(exact) | (abs(high) < _SMALLEST_SPLIT))
    if inexact.any():
        exact = np.where(inexact, _rational_fma(x, y, z), exact)
    return np.where(finite, exact, x * y + z)[()]


def _rational_fma_of(a: float, b: float, c: float) -> float:
    """Return `a * b + c` of float64 rounded once, by exact rational arithmetic; slow."""
    if not math.isfinite(a) or not math.isfinite(b) or not math.isfinite(c):
        return math.nan
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return a * b + c  # which has the sign of zero
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


_rational_fma = np.vectorize(_rational_fma_of, otypes=[np.float64])


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its exact error (Dekker)."""
    product = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _odd(total: Array, error: Array) -> Array:
    """`total` + `error` rounded to odd, where `total` is the rounded sum."""
    even = (np.ascontiguousarray(total).view(np.int64).reshape(total.shape) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(even & (error != 0), np.nextafter(total, toward), total)
