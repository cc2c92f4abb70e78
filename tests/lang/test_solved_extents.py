"""Symbols that no argument has as an extent, and that follow from one: `n` from `n + 1`."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def, untyped-decorator, misc"
# ruff: noqa: ANN201, ANN202
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.errors import ArgumentError, KernelError


@tileprof.jit(out_idx=[-1])
def lengths(factor: int = 1):
    """Differences of neighbours, of which there is one fewer than elements."""
    n = T.dynamic("n")

    @T.prim_func
    def main(
        ends: T.Tensor((factor * n + 1,), T.int32),
        weights: T.Tensor((n + 4,), T.int32),
        out: T.Tensor((n * 2,), T.int32),
    ):
        with T.Kernel(n, threads=32) as b:
            out[2 * b] = ends[b + 1] - ends[b]
            out[2 * b + 1] = weights[n]

    return main


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_symbols_follow_from_expressions(device: str) -> None:
    """The symbol is solved for, and is known to the grid and to the shape of the result."""
    ends, weights = np.array([0, 3, 7, 9], "i4"), np.arange(7, dtype="i4")
    with tileprof.device(device):
        assert lengths()(ends, weights).tolist() == [3, 3, 4, 3, 2, 3]
        longer = lengths(2)(np.array([0, 3, 7, 9, 11], "i4"), weights[:6])
        assert longer.tolist() == [3, 2, 4, 2]


@pytest.mark.parametrize(("factor", "ends", "weights"), [(1, 4, 6), (2, 4, 5), (1, 0, 4)], ids=str)
def test_extents_that_do_not_fit_are_refused(factor: int, ends: int, weights: int) -> None:
    """Extents that contradict each other, or that no number gives, name the argument."""
    given = np.zeros(ends, "i4"), np.zeros(weights, "i4")
    with pytest.raises(ArgumentError, match=r"extent `(ends|weights)_dim0` is \d and should be \d"):
        lengths(factor)(*given)


def test_symbols_of_two_unknowns_are_refused() -> None:
    """A sum of two symbols gives neither."""

    @tileprof.jit
    def sums():
        n, m = T.dynamic("n"), T.dynamic("m")

        @T.prim_func
        def main(A: T.Tensor((n + m,), T.int32)):
            with T.Kernel(n, threads=32) as b:
                A[b] = 0

        return main

    with pytest.raises(KernelError, match="no argument gives the value of"):
        sums()
