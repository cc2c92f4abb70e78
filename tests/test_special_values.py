"""NaN, infinities and zeros of both signs mean the same on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof.lang as T
from tests.call_kernels import extremes
from tests.everywhere import results_everywhere
from tileprof import ir

pytestmark = pytest.mark.usefixtures("optimised")

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def _expected(x: Array, y: Array) -> list[Array]:
    """Every result as a fold that drops NaN where there is a number beside it."""
    low, high = np.fmin.reduce(x, 1), np.fmax.reduce(x, 1)
    out = [high, low, np.fmax.reduce(abs(x), 1), np.fmax(y, high), np.fmin(y, low)]
    best = [np.fmax.reduce(x, None), np.fmin.reduce(x, None)]
    return [np.stack(out), np.fmax.accumulate(x, 1), np.stack(best)]


@pytest.mark.spread("bfloat16-5")
@pytest.mark.parametrize(("dtype", "length"), [("float32", 100), ("bfloat16", 5)])
def test_nan_loses_against_numbers_and_remains_where_all_are_nan(dtype: str, length: int) -> None:
    """Reductions, scans and atomics join elements as `T.max` and `T.min` do, on every device."""
    x = np.random.default_rng(0).integers(-8, 9, (6, length)) / 4
    x[0, 3:], x[1], x[2], x[3], x[4, 1:] = NAN, NAN, -INF, INF, NAN
    x[5, ::2], x[5, 1::2] = NAN, -INF
    y = np.array([1.0, 2.0, NAN, 0.0, NAN, NAN])
    kind = ir.dtype(dtype).to_numpy()
    for device, found in results_everywhere(
        extremes, [x.astype(kind), y.astype(kind)], dtype=dtype
    ):
        for made, expected in zip(found, _expected(x, y), strict=True):
            np.testing.assert_array_equal(made.astype(np.float64), expected, device)


def test_static_max_and_min_drop_nan_on_either_side() -> None:
    """Of numbers known at compile time too, a NaN loses whichever argument it is."""
    assert T.max(NAN, 1.0) == T.max(1.0, NAN) == T.min(NAN, 1.0) == T.min(1.0, NAN) == 1.0
