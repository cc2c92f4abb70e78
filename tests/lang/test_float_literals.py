"""Python floats beside narrow floats: the result is float32, as TileLang's literals make it."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201, ANN202
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import same_everywhere


@tileprof.jit
def literals(X, dtype: str = "float16"):
    """Each row is another use of a literal; the last one names the narrow type."""
    X: T.Tensor((64,), dtype)
    out = T.empty((4, 64), T.float32)
    with T.Kernel(1, threads=64) as _:
        for i in T.Parallel(64):
            out[0, i] = T.exp2(X[i] * 1.5)
            out[1, i] = X[i] + 4096.25
            out[2, i] = T.max(X[i], 0.1)
            out[3, i] = X[i] * T.cast(1.5, dtype)
    return out


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float_literals_widen_narrow_floats(dtype: str) -> None:
    """Nothing overflows or loses digits in the narrow type unless the author names it."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.linspace(-9, 14, 64).astype(kind)
    wide = x.astype("f4")
    rounded = (wide * 1.5).astype(kind).astype("f4")
    expected = [np.exp2(wide * 1.5), wide + 4096.25, np.maximum(wide, np.float32(0.1)), rounded]
    assert expected[0].max() > 65504
    same_everywhere(literals, [x], np.stack(expected), dtype=dtype)


def test_integer_literals_keep_the_type() -> None:
    """An integer beside a narrow float is a number of its type."""

    @tileprof.jit
    def doubled(X):
        X: T.Tensor((64,), T.float16)
        out = T.empty((64,), T.float32)
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                out[i] = X[i] * 2
        return out

    assert np.isinf(doubled(np.full(64, 60000, "f2"))).all()
