"""The first difference of a result, and what it says of elements that nobody wrote."""

from __future__ import annotations

import numpy as np

from tileprof.learn.difference import Difference
from tileprof.learn.watch import Watch


def test_memory_that_nobody_wrote_differs_whatever_it_holds() -> None:
    """Right values by chance count as wrong; a signalling NaN raises no warning."""
    bits = np.array([0x7F800001, 0, 0x3F800000], np.uint32)
    expected = np.ones(3, np.float32)
    found = Difference.first("C", bits.view(np.float32), expected, 0.0, 0.0, Watch())
    assert found is not None
    assert (found.index, found.count, found.unwritten) == ((0,), 3, 3)


def test_a_value_at_the_wrong_place_says_where_it_belongs() -> None:
    """Rows and columns that were mixed up are found by the value itself."""
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Difference.first("C", expected[::-1], expected, 0.0, 0.0, None)
    assert found is not None
    assert found.text() == "C[0, 0] is 3, expected 0 (6 of 6 elements differ)"
    assert found.explained() == "The value belongs at C[1, 0]."
