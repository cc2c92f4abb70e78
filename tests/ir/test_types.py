"""Element types: names, NumPy counterparts and promotion."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileprof import ir
from tileprof.errors import DTypeError


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("float16", "float16"),
        ("half", "float16"),
        (np.float32, "float32"),
        (np.dtype("int8"), "int8"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (float, "float32"),
        ("float8_e4m3fn", "float8_e4m3"),
        (ir.dtype("index"), "index"),
    ],
)
def test_types_have_many_names(spec: object, name: str) -> None:
    """Strings, NumPy, ml_dtypes and Python types name element types."""
    assert ir.dtype(spec).name == name


def test_unknown_types_list_the_known_ones() -> None:
    """The way out is the list."""
    with pytest.raises(DTypeError, match="`complex64` is not an element type") as caught:
        ir.dtype("complex64")
    assert "bfloat16, float8_e4m3" in caught.value.hint


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int32", "float16", "float16"),
        ("bfloat16", "float16", "float32"),
        ("float32", "float64", "float64"),
        ("int32", "uint32", "uint32"),
        ("int8", "int64", "int64"),
        ("index", "int32", "index"),
        ("bool", "int8", "int8"),
    ],
)
def test_promotion(a: str, b: str, result: str) -> None:
    """Promotion is symmetric and gives the documented type."""
    assert ir.promote(ir.dtype(a), ir.dtype(b)).name == result
    assert ir.promote(ir.dtype(b), ir.dtype(a)).name == result


def test_every_type_has_its_size_in_numpy() -> None:
    """Bits and NumPy's item size agree."""
    for each in ir.DTYPES.values():
        assert each.to_numpy().itemsize == each.bytes
