"""Elements decide over wider ones, in vectorised loops in loops."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T

SIZE = 512


@tileprof.jit
def chosen(flags, x, y, narrow, wide, inner: int):
    flags: T.Tensor((SIZE,), narrow)
    x: T.Tensor((SIZE,), wide)
    y: T.Tensor((SIZE,), wide)
    out = T.empty((5, SIZE), wide)
    with T.Kernel(1):
        own = T.alloc_fragment((SIZE,), wide)
        T.copy(x, own)
        for i, j in T.Parallel(SIZE // inner, inner):
            k = i * inner + j
            own[k] = T.if_then_else(flags[k] != 0, own[k], y[k])
        T.copy(own, out[0, 0:SIZE])
        for i, j in T.Parallel(SIZE // inner, inner):
            k = i * inner + j
            out[1, k] = T.if_then_else(flags[k] > 0, x[k] + 1, y[k] * 2)
        for i, j in T.Parallel(SIZE // inner, inner):
            k = i * inner + j
            if flags[k] != 0:
                out[2, k] = x[k]
            else:
                out[2, k] = 3
        for i, j in T.Parallel(SIZE // inner, inner):
            k = i * inner + j
            out[3, k] = T.if_then_else(flags[k] != 0, 0, y[k])
        for i, j in T.Parallel(SIZE // inner, inner):
            k = i * inner + j
            held = x[k]
            out[4, k] = T.if_then_else(flags[k] != 0, held, y[k])
    return out


NARROW = ("uint8", "int8", "float16", "int32")
WIDE = ("float16", "bfloat16", "float32", "int32", "int64", "float64")


@pytest.mark.spread
@pytest.mark.parametrize(
    ("narrow", "wide", "inner"),
    [*zip(NARROW[:1] * 6, WIDE, itertools.cycle((8, 4))), *zip(NARROW[1:], WIDE[3:], (16, 8, 4))],
)
def test_the_right_element_is_chosen(narrow, wide, inner):
    """A mask of narrow elements is as wide as the data that it chooses."""
    random = np.random.default_rng(5)
    kind = ml_dtypes.bfloat16 if wide == "bfloat16" else np.dtype(wide)
    flags = random.integers(0, 2, SIZE).astype(narrow)
    x, y = (random.integers(1, 90, SIZE).astype(kind) for _ in range(2))
    with tileprof.device("cpu"):
        got = chosen(flags, x, y, narrow, wide, inner)
    on = flags != 0
    expected = [
        np.where(on, x, y), np.where(on, x + kind(1) if wide == "bfloat16" else x + 1, y * 2),
        np.where(on, x, 3), np.where(on, 0, y), np.where(on, x, y),
    ]  # fmt: skip
    np.testing.assert_array_equal(got, np.stack([e.astype(kind) for e in expected]))
