# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Pipelined loops of fewer iterations than stages, and grids whose extents are known at launch."""

import re

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


@tileprof.jit
def doubled(X, trips: int, stages: int):
    """Twice each element; the grid's first extent is known at launch only."""
    M = T.dynamic("M")
    N = T.const("N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, 8), T.ceildiv(N, 32 * trips), threads=64) as (bx, by):
        tile = T.alloc_shared((8, 32), T.float32)
        held = T.alloc_fragment((8, 32), T.float32)
        for k in T.Pipelined(trips, num_stages=stages):
            T.copy(X[bx * 8, (by * trips + k) * 32], tile)
            for i, j in T.Parallel(8, 32):
                held[i, j] = tile[i, j] * 2
            T.copy(held, Y[bx * 8, (by * trips + k) * 32])
    return Y


@pytest.mark.spread("1-3-1", "5-2-2")
@pytest.mark.parametrize(("trips", "stages", "slots"), [(1, 3, 1), (2, 3, 2), (3, 3, 3), (5, 2, 2)])
def test_no_more_stages_than_iterations(trips: int, stages: int, slots: int) -> None:
    """Memory for what is loaded ahead, and no slot that is never filled."""
    columns = 32 * trips * 2
    kernel = doubled.compile(N=columns, trips=trips, stages=stages).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    assert "tp_cp_async<16>" in program.source.text
    assert program.source.launches[0].shared == slots * 1024
    rng = np.random.default_rng(0)
    for rows, seed in ((8, 0), (19, 1)):
        x = rng.integers(-9, 9, (rows, columns)).astype(np.float32)
        y = np.full_like(x, np.nan)
        emulate(program.source, program.kernel, [x, y], symbols={"M": rows}, seed=seed)
        np.testing.assert_array_equal(y, x * 2)


def test_extents_of_the_grid_take_32_bits() -> None:
    """A division by 64 bits would be a call of a function in front of every block's work."""
    program = compile_cuda(
        doubled.compile(N=64, trips=1, stages=2).program.kernel, find_target("sm_90a")
    )
    (passed,) = [a for a in program.source.launches[0].arguments if a.kind == "host"]
    assert str(passed.dtype) == str(ir.dtype("int32"))
    assert re.search(r"const int host\b", program.source.text)


def test_extents_that_follow_from_a_number_take_32_bits() -> None:
    """The author's number may have 64 bits; a launch of more than 31 bits of blocks fails."""

    @T.prim_func
    def ragged(
        X: T.Tensor((64, 32), "float32"), longest: T.int32, Y: T.Tensor((64, 32), "float32")
    ) -> None:
        with T.Kernel(T.ceildiv(longest, 8), 4, threads=32) as (bx, by):
            tile = T.alloc_fragment((8, 8), "float32")
            T.copy(X[bx * 8, by * 8], tile)
            T.copy(tile, Y[bx * 8, by * 8])

    program = compile_cuda(tileprof.compile(ragged).program.kernel, find_target("sm_90a"))
    (passed,) = [a for a in program.source.launches[0].arguments if a.kind == "host"]
    assert str(passed.dtype) == str(ir.dtype("int32"))
    assert re.search(r"const int host\b", program.source.text)
    x, y = np.random.default_rng(0).random((64, 32), np.float32), np.zeros((64, 32), np.float32)
    emulate(program.source, program.kernel, [x, 19, y])
    np.testing.assert_array_equal(y[:24], x[:24])
    assert not y[24:].any()
