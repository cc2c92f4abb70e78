"""Conversion between element types, each rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileprof import ir

from .lanes import Array, Scalar, tidy

NARROW = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2")
"""Floats that are computed in float32 and rounded: for + - * / sqrt that equals rounding once."""


def wide(value: Scalar, dtype: ir.DType) -> Scalar:
    """Return a narrow float as float32, exactly; anything else as it is."""
    return np.asarray(value).astype(np.float32) if dtype.name in NARROW else value


def constant(value: bool | int | float, dtype: ir.DType) -> Scalar:
    """Return a number of a type; integers wrap around at its width."""
    if dtype.kind == "index":
        return int(value)
    if dtype.is_float:
        return narrow(np.float64(value), dtype)
    if dtype.kind == "bool":
        return np.bool_(value)
    whole = int(value) & ((1 << dtype.bits) - 1)
    return np.array(whole, f"uint{dtype.bits}").view(dtype.to_numpy())[()]


def cast(value: Scalar, source: ir.DType, target: ir.DType) -> Scalar:
    """`value` of type `source` as `target`, by the rules of `ir.Cast`."""
    if source == target:
        return value
    if target.kind == "bool":
        return np.asarray(wide(value, source) != 0)[()]
    if target.is_float:
        if source.is_float or target.name not in NARROW:
            return narrow(wide(value, source), target)
        return narrow(np.asarray(value).astype(np.float64), target)
    return tidy(np.asarray(wide(value, source)).astype(target.to_numpy())[()], target)


def narrow(value: Scalar, dtype: ir.DType) -> Scalar:
    """Return a float rounded once, to nearest even, to the float type `dtype`."""
    held = np.asarray(value)
    # ml_dtypes goes from float64 through float32 and so rounds twice; float32 rounded to odd
    # keeps what the second rounding needs to know.
    if held.dtype == np.float64 and dtype.name in NARROW[1:]:
        held = _odd_float32(held)
    return held.astype(dtype.to_numpy(), copy=False)[()]


def _odd_float32(value: Array) -> Array:
    """float64 to float32, inexact results to the neighbour whose last bit is 1."""
    near = np.asarray(value.astype(np.float32))
    back = near.astype(np.float64)
    even = (near.view(np.uint32) & 1) == 0
    toward = np.where(back < value, np.float32(np.inf), np.float32(-np.inf))
    move = even & (back != value) & ~np.isnan(value)
    return np.asarray(np.where(move, np.nextafter(near, toward), near))


def bitcast(value: Scalar, target: ir.DType) -> Scalar:
    """Return the same bits as another type of the same size."""
    held: Any = np.asarray(value, np.int64) if type(value) is int else np.asarray(value)
    return tidy(np.ascontiguousarray(held).view(target.to_numpy()).reshape(held.shape)[()], target)
