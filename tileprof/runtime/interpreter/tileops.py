"""The meaning of ops on whole tiles, all blocks of a batch in one NumPy call each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tileprof import ir

from . import elements, tiles
from .convert import NARROW, cast
from .lanes import Array
from .state import State


def copy(state: State, op: ir.Copy) -> None:
    """`ir.Copy`: an element that was never written may be copied only to where it is dropped."""
    source, target = tiles.operand(state, op.source), tiles.operand(state, op.target)
    values, missing = tiles.read(state, op, source)
    values = cast(values, op.source.dtype, op.target.dtype)
    values = values.reshape(-1, *target.sizes)
    tiles.write(state, op, target, values, source, missing)


def fill(state: State, op: ir.Fill) -> None:
    """`ir.Fill`."""
    target = tiles.operand(state, op.target)
    value = np.asarray(state.env[op.value], op.target.dtype.to_numpy())
    tiles.write(state, op, target, value.reshape(-1, *(1,) * len(target.sizes)))


def gemm(state: State, op: ir.Gemm) -> None:
    """`ir.Gemm`: float sums are made in float32 at least and rounded to the type of `c` at the end;
    integer sums are exact and wrap around at its width."""
    target = tiles.operand(state, op.c)
    a = _matrix(state, op, op.a, op.transpose_a)
    b = _matrix(state, op, op.b, op.transpose_b)
    dtype = _sum_type(op.c.dtype)
    if dtype.is_float:
        working: Any = dtype.to_numpy()
    else:
        working = _exact_type(op, op.mnk[2])
    total = np.matmul(_as(a, op.a.dtype, working), _as(b, op.b.dtype, working))
    if not dtype.is_float:
        total = total.astype(np.int64)
    total = total.reshape(-1, *target.sizes)
    if not op.clear:
        before = cast(tiles.need(state, op, target), op.c.dtype, dtype)
        total = np.add(before, total, out=total if total.shape[0] == state.count else None)
    tiles.write(state, op, target, _rounded(total, dtype, op.c.dtype))


def _matrix(state: State, op: ir.Gemm, value: ir.Value, transposed: bool) -> Array:
    held = tiles.need(state, op, tiles.operand(state, value))
    matrix = held.reshape(-1, *ir.Gemm.matrix(value))
    return matrix.swapaxes(1, 2) if transposed else matrix


def _as(values: Array, dtype: ir.DType, working: np.dtype[Any]) -> Array:
    # float8 and bfloat16 reach float64 through float32, exactly.
    narrow = values.astype(np.float32) if dtype.name in NARROW else values
    return narrow.astype(working, copy=False)


def _exact_type(op: ir.Gemm, k: int) -> np.dtype[Any]:
    """float64, which BLAS multiplies, as long as no sum passes 2**53."""
    bits = op.a.dtype.bits + op.b.dtype.bits + k.bit_length()
    return np.dtype(np.float64 if bits <= 53 else np.int64)


def _sum_type(dtype: ir.DType) -> ir.DType:
    """Return the type in which sums of elements are made."""
    if dtype.is_float:
        return ir.DTYPES["float32"] if dtype.name in NARROW else dtype
    return ir.DTYPES["int64"]


def _rounded(values: Array, working: ir.DType, target: ir.DType) -> Array:
    return np.asarray(cast(values, working, target))


REDUCE: Mapping[str, Any] = {
    "sum": np.add,
    "abssum": np.add,
    "max": np.fmax,
    "absmax": np.fmax,
    "min": np.fmin,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}


def reduce(state: State, op: ir.Reduce) -> None:
    """`ir.Reduce`: in the type of the target, float32 at least, rounded at the end."""
    source, target = tiles.operand(state, op.source), tiles.operand(state, op.target)
    working = _working_type(op.target.dtype)
    values = np.asarray(cast(tiles.need(state, op, source), op.source.dtype, working))
    if op.kind in ("absmax", "abssum"):
        values = np.abs(values)
    function = REDUCE[op.kind]
    made: Array = function.reduce(values, axis=op.dim + 1, dtype=values.dtype)
    made = np.asarray(made).reshape(-1, *target.sizes)
    if not op.clear:
        before = cast(tiles.need(state, op, target), op.target.dtype, working)
        made = function(before, made)
    tiles.write(state, op, target, _rounded(made, working, op.target.dtype))


def _working_type(dtype: ir.DType) -> ir.DType:
    return _sum_type(dtype) if dtype.is_float else dtype


def scan(state: State, op: ir.Scan) -> None:
    """`ir.Scan`: in the type of the target, float32 at least, each element rounded."""
    source, target = tiles.operand(state, op.source), tiles.operand(state, op.target)
    working = _working_type(op.target.dtype)
    values = np.asarray(cast(tiles.need(state, op, source), op.source.dtype, working))
    axis = op.dim + 1
    ordered = np.flip(values, axis) if op.reverse else values
    function = np.add if op.kind == "sum" else np.fmax
    made: Array = function.accumulate(ordered, axis=axis, dtype=values.dtype)
    if op.reverse:
        made = np.flip(made, axis)
    tiles.write(state, op, target, _rounded(made, working, op.target.dtype))


def tile_atomic(state: State, op: ir.TileAtomic) -> None:
    """`ir.TileAtomic`: blocks combine in their order."""
    source, target = tiles.operand(state, op.source), tiles.operand(state, op.target)
    values = cast(tiles.need(state, op, source), op.source.dtype, op.target.dtype)
    spread = np.broadcast_to(values.reshape(-1, *target.sizes), (state.count, *target.sizes))
    flat, inside = tiles.flat_elements(state, op, target)
    elements.combine(target.buffer, op.kind, flat, spread[inside], wanted=False)
