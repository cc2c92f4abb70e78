"""Python integers beside integers: they are int32, or int64 where that is too narrow."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import same_everywhere

WIDE = 1 << 31
TYPES = {
    # element type: result beside a literal of 32 bits, and beside a wider one
    "bool": ("int32", "int64"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "int32": ("int32", "int64"),
    "uint32": ("uint32", "int64"),
    "int64": ("int64", "int64"),
    "uint64": ("uint64", "uint64"),
    "float16": ("float16", "float16"),
    "float32": ("float32", "float32"),
}
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, T.max, T.min
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
def test_literals_have_32_bits_or_64(dtype: str) -> None:
    """The type of `x op literal` and `literal op x` is that of an int32, or int64, beside `x`."""
    found = set()

    @T.prim_func
    def kernel(X: T.Tensor((32,), dtype)) -> None:
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                for combine in OPERATORS:
                    for at, literal in enumerate((5, WIDE)):
                        found.add((at, str(combine(X[i], literal).dtype)))
                        found.add((at, str(combine(literal, X[i]).dtype)))
                        found.add((at, str(T.if_then_else(i > 3, X[i], literal).dtype)))

    tileprof.compile(kernel)
    assert found == set(enumerate(TYPES[dtype]))


@tileprof.jit
def bytes_widened(X, dtype: str = "uint8"):
    """Each row is a use of a literal whose result does not fit into a byte."""
    X: T.Tensor((64,), dtype)
    out = T.empty((6, 64), T.int64)
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            out[0, i] = X[i] * 16
            out[1, i] = (X[i] << 4) >> 4
            out[2, i] = 1 - X[i]
            out[3, i] = (X[i] + 255) // 2
            out[4, i] = T.max(X[i], -300)
            out[5, i] = X[i] * X[i]
    return out


@pytest.mark.spread("int8")
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_literals_widen_bytes(dtype: str) -> None:
    """Nothing wraps beside a literal; a product of two bytes does."""
    x = np.arange(64).astype(dtype) * np.array(7, dtype)
    wide = x.astype("i8")
    rows = [wide * 16, wide, 1 - wide, (wide + 255) // 2, np.maximum(wide, -300), x * x]
    assert np.abs(rows[0]).max() > 255
    same_everywhere(bytes_widened, [x], np.stack(rows), dtype=dtype)
