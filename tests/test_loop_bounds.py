# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Loops whose ends are choices and masks run as often on every device."""

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import results_everywhere

pytestmark = pytest.mark.usefixtures("optimised")


@tileprof.jit
def counted(n):
    """How often loops run that end at a choice, and at a mask of the block's index."""
    n: T.Tensor((4,), T.int32)
    out = T.empty((4, 2), T.int32)
    with T.Kernel(4, threads=32) as bx:
        runs = T.alloc_var(T.int32)
        runs = 0
        for _ in range(T.if_then_else(n[bx] > 2, 3, 0)):
            runs += 1
        out[bx, 0] = runs
        runs = 0
        for _ in range(1, (bx + 1) & 3):
            runs += 1
        out[bx, 1] = runs
    return out


def test_a_loop_ends_at_a_choice_and_at_a_mask() -> None:
    """A comparison binds more than both."""
    numbers = np.array([1, 5, 8, 30], np.int32)
    for device, (found,) in results_everywhere(counted, [numbers]):
        assert found.tolist() == [[0, 0], [3, 1], [3, 2], [3, 0]], device
