"""Barriers that protect nothing are left out, and those beside them stay."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate


def _averaged(last: int, times: int) -> CudaProgram:
    """Averages with neighbours in shared memory, a few times; what a thread then reads is so far
    from what it wrote."""

    @T.prim_func
    def averaged(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")) -> None:
        with T.Kernel(1, threads=128):
            rows = T.alloc_shared((2, 128), "float32")
            for i in T.Parallel(128):
                rows[0, i] = X[i]
            for k in T.serial(times):
                for i in T.Parallel(128):
                    rows[(k + 1) % 2, i] = rows[k % 2, i] + rows[k % 2, (i + 1) % 128]
            for i in T.Parallel(128):
                Y[i] = rows[times % 2, (i + last) % 128 if last else i]

    return compile_cuda(tileprof.compile(averaged).program.kernel, find_target("sm_90a"))


def _barriers(made: CudaProgram) -> int:
    return sum(isinstance(op, ir.Barrier) for op in made.kernel.ops())


@pytest.mark.parametrize(("last", "barriers"), [(0, 1), (1, 2), (64, 2)])
def test_what_a_thread_wrote_itself_needs_no_barrier(last: int, barriers: int) -> None:
    """One stands in the loop, and one behind it where a thread reads what another one wrote."""
    made = _averaged(last, times=3)
    assert _barriers(made) == barriers
    x = np.arange(128, dtype=np.float32)
    expected = x
    for _ in range(3):
        expected = expected + np.roll(expected, -1)
    for seed in range(4):
        y, watch = np.full_like(x, np.nan), Watch()
        emulate(made.source, made.kernel, [x, y], seed=seed, watch=watch)
        np.testing.assert_array_equal(y, np.roll(expected, -last))
        assert not watch.found


def _in_turns(read: Callable[[int, int], tuple[int, int]]) -> CudaProgram:
    """Adds to a tile what another loop left there."""

    @T.prim_func
    def in_turns(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")) -> None:
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, 64), "float32")
            for i, j in T.Parallel(16, 64):
                tile[i, j] = X[i, j]
            for _ in T.serial(4):
                for i, j in T.Parallel(16, 64):
                    tile[i, j] = tile[read(i, j)] * 2.0 + tile[i, j]
            for i, j in T.Parallel(16, 64):
                Y[i, j] = tile[i, j]

    return compile_cuda(tileprof.compile(in_turns).program.kernel, find_target("sm_90a"))


def test_only_elements_at_the_points_themselves_are_a_thread_s_own() -> None:
    """The same points in one layout, or other ones of the same tile."""
    assert _barriers(_in_turns(lambda i, j: (i, j))) == 0
    assert _barriers(_in_turns(lambda i, j: (i, 63 - j))) > 0


@pytest.mark.parametrize(("times", "barriers"), [(1, 1), (2, 2)])
def test_a_loop_of_one_iteration_has_none_before(times: int, barriers: int) -> None:
    """Only the next iteration may overwrite elements that the one before still reads at its end."""

    @T.prim_func
    def rolled(X: T.Tensor((128,), "float32"), Y: T.Tensor((4, 128), "float32")) -> None:
        with T.Kernel(1, threads=128):
            row = T.alloc_shared((128,), "float32")
            for k in T.serial(times):
                for i in T.Parallel(128):
                    row[i] = X[i]
                for i in T.Parallel(128):
                    Y[k, i] = row[127 - i]

    made = compile_cuda(tileprof.compile(rolled).program.kernel, find_target("sm_90a"))
    assert _barriers(made) == barriers
