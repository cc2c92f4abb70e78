"""Arrays of the tuner: those that stand for arguments, and how results are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileprof import ir
from tileprof.bench.arrays import made_array, moved_array
from tileprof.tuning import Tolerances
from tileprof.tuning.subjects import copied, difference

Made = Callable[[Any], Any]


def _numpy(values: Any) -> Any:
    return np.asarray(values, np.float32)


def _torch(values: Any) -> Any:
    return pytest.importorskip("torch").tensor(values)


@pytest.mark.parametrize("make", [_numpy, _torch])
def test_results_are_compared_within_tolerances(make: Made) -> None:
    """Of NumPy and PyTorch alike: shapes, counts, values, and what is not finite."""
    limits = Tolerances(1e-2, 1e-2, 0.3)
    one = make([1.0, float("nan"), float("inf"), 100.0])
    assert difference([one], [copied(one)], limits) == ""
    near = make([1.015, float("nan"), float("inf"), 100.9])
    assert difference([near], [one], limits) == ""
    off = make([2.0, float("nan"), float("inf"), 100.0])
    assert difference([off], [one], limits) == "", "a quarter may be wrong"
    wrong = make([2.0, 0.0, float("inf"), 100.0])
    assert "50 % of the elements of result 0 differ" in difference([wrong], [one], limits)
    opposite = make([1.0, float("nan"), -float("inf"), 90.0])
    assert "50 %" in difference([opposite], [one], limits)
    assert "has shape (1,)" in difference([make([1.0])], [one], limits)
    assert "2 results, where 1" in difference([one, one], [one], limits)
    assert difference([make([])], [make([])], limits) == ""


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3", "int32", "uint8"])
def test_arrays_that_stand_for_arguments_are_the_same_each_time(name: str) -> None:
    """And keep their values on the way to PyTorch."""
    dtype = ir.DTYPES[name]
    one, other = (made_array((3, 8), dtype, "cpu", np.random.default_rng(0)) for _ in range(2))
    assert one.dtype == dtype.to_numpy()
    np.testing.assert_array_equal(one, other)
    torch: Any = pytest.importorskip("torch")
    moved = moved_array(one[:, ::2], "cpu")
    assert moved.shape == (3, 4)
    back = moved.to(torch.float64).numpy()
    np.testing.assert_array_equal(back, one[:, ::2].astype(np.float64))


def test_copies_do_not_share_memory() -> None:
    """What is no array stays as it is."""
    array = np.zeros(3, ml_dtypes.bfloat16)
    assert not np.shares_memory(copied(array), array)
    assert copied(3) == 3
