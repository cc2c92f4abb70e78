"""Copies behind each other as one loop, so that all of their loads are in flight."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate

ROWS = 24


def _summed(columns: int = 64, parts: int = 1, between: bool = False, out: int = 2) -> Any:
    """Sums of two tiles, of which the second one has a part of the columns; `out` 1: they are
    stored where it was read."""

    @T.prim_func
    def summed(
        X: T.Tensor((ROWS, columns), "float32"),
        Y: T.Tensor((ROWS, columns), "float32"),
        Z: T.Tensor((ROWS, columns), "float32"),
    ) -> None:
        with T.Kernel(2, threads=64) as bx:
            x = T.alloc_shared((16, columns), "float32")
            y = T.alloc_shared((16, columns // parts), "float32")
            T.copy(X[bx * 16, 0], x)
            if between:
                for i in T.Parallel(16):
                    x[i, 0] = 1
            T.copy(Y[bx * 16, 0], y)
            for i, j in T.Parallel(16, columns):
                if bx * 16 + i < ROWS:
                    if out == 1:
                        Y[bx * 16 + i, j] = y[i, j] + x[i, j]
                    elif parts == 1:
                        Z[bx * 16 + i, j] = y[i, j] + x[i, j]
                    else:
                        Z[bx * 16 + i, j] = y[i, j % (columns // parts)] + x[i, j]

    return summed


@pytest.mark.parametrize(
    ("given", "joined", "target"),
    [
        ({}, True, "sm_90a"),
        ({}, True, "sm_80"),
        # More bytes of each thread than may be in flight, other points, something between, a tensor
        # that is written.
        ({"columns": 256}, False, "sm_90a"),
        ({"parts": 2}, False, "sm_90a"),
        ({"between": True}, False, "sm_90a"),
        ({"out": 1}, False, "sm_90a"),
    ],
)
def test_copies_are_one_loop_where_nothing_is_lost(
    given: dict[str, Any], joined: bool, target: str
) -> None:
    """Both copies load before either stores; rows beyond the end are zeros as before."""
    kernel = tileprof.compile(_summed(**given)).program.kernel
    made = compile_cuda(kernel, TARGETS[target])
    copies = [o for o in made.kernel.ops() if isinstance(o, ir.Parallel) and o.origin == "copy"]
    loads = [sum(isinstance(o, ir.Load) for o in each.body.ops) for each in copies]
    assert loads == ([2] if joined else [1, 1])
    columns, parts = given.get("columns", 64), given.get("parts", 1)
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (ROWS, columns)).astype(np.float32)
    y = random.integers(-9, 9, (ROWS, columns)).astype(np.float32)
    z = np.zeros((ROWS, columns), np.float32)
    added = np.tile(y[:, : columns // parts], parts)
    want = x + added
    if given.get("between"):
        want[:, 0] = y[:, 0] + 1
    emulate(made.source, kernel, [x, y, z])
    np.testing.assert_array_equal(y if given.get("out") == 1 else z, want)
