"""Columns of numbers: which type each has, by its annotation."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileprof.profile.columns import number_type


@pytest.mark.parametrize(
    "hint",
    [
        npt.NDArray[np.int64],
        np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        # As NumPy 2.5 makes `NDArray[np.int64]`: an alias with the type as its only argument.
        GenericAlias(np.ndarray, (np.int64,)),
    ],
)
def test_the_type_of_numbers_is_found_however_an_annotation_is_written(hint: Any) -> None:
    """Before and since NumPy 2.5, as an alias and in full."""
    assert number_type(hint) is np.int64


@pytest.mark.parametrize("hint", [int, list[int], np.ndarray])
def test_an_annotation_without_a_type_of_numbers_is_an_error(hint: Any) -> None:
    """Nothing is guessed."""
    with pytest.raises(TypeError, match="no type of numbers"):
        number_type(hint)
