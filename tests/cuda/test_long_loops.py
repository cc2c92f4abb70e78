"""Loops in which a thread has many points: they stay loops, and what is in flight in registers."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


def _compiled(points: int, *, functions: bool) -> CudaProgram:
    """A copy of a row by one block of 32 threads, of which each has so many points."""
    columns = 32 * points

    @T.prim_func
    def rows(X: T.Tensor((columns,), "float32"), Y: T.Tensor((columns,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            for i in T.Parallel(columns):
                x = X[i]
                Y[i] = T.exp(x) + T.tanh(x) if functions else x

    return compile_cuda(tileprof.compile(rows).program.kernel, find_target("sm_90a"))


@pytest.mark.parametrize(
    ("points", "functions", "rolled"),
    [(512, False, 0), (1024, False, 1), (128, True, 0), (512, True, 1)],
)
def test_long_loops_stay_loops_around_what_is_in_flight(
    points: int, functions: bool, rolled: int
) -> None:
    """Registers of loads are never numbered by a variable: that would be local memory.  A loop with
    too many instructions stays one, around loads that are begun together."""
    made = _compiled(points, functions=functions)
    text = made.source.text
    assert text.count("#pragma unroll 1\n") == rolled
    behind_array = text[text.index("float X_in[") :].split("\n")[1]
    assert behind_array.strip() == "#pragma unroll"
    x = np.linspace(-2, 2, 32 * points, dtype=np.float32)
    y = np.full_like(x, np.nan)
    emulate(made.source, made.kernel, [x, y], seed=1)
    np.testing.assert_allclose(y, np.exp(x) + np.tanh(x) if functions else x, rtol=1e-5, atol=1e-5)
