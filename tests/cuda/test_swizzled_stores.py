"""Loops over vectors wider than a chunk of swizzled memory: each chunk is stored where it lies."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate


@T.prim_func
def looked_up(
    X: T.Tensor((8, 64), "uint8"),
    Y: T.Tensor((2, 8, 64), "float32"),
    Z: T.Tensor((2, 8, 64), "uint8"),
) -> None:
    """Eight floats, 32 bytes, are computed at once from eight bytes."""
    with T.Kernel(2, threads=32) as b:
        x = T.alloc_shared((8, 64), "uint8")
        y = T.alloc_shared((64, 8), "float32")
        T.copy(X, x)
        for _ in T.serial(b, 4):
            for i, j in T.Parallel(64, 8):
                y[i, j] = T.cast(x[j, T.min(b * j, 63)], "float32") + i
        for i, j in T.Parallel(64, 8):
            Y[b, j, i] = y[i, j]
        T.copy(x, Z[b, :, :])


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_a_vector_of_two_chunks_stays_in_its_row(target: str) -> None:
    """Rows are complete, and the tile that follows in shared memory keeps its content."""
    made = compile_cuda(tileprof.compile(looked_up).program.kernel, TARGETS[target])
    assert "swizzle" in str(next(r for r in made.remarks if "buffer y" in str(r)))
    x = np.random.default_rng(0).integers(1, 200, (8, 64)).astype(np.uint8)
    y, z = np.full((2, 8, 64), np.nan, np.float32), np.zeros((2, 8, 64), np.uint8)
    emulate(made.source, made.kernel, [x, y, z], seed=1)
    first = np.array([[x[j, b * j] for j in range(8)] for b in range(2)])
    np.testing.assert_array_equal(y, first[:, :, None] + np.arange(64))
    np.testing.assert_array_equal(z, np.broadcast_to(x, (2, 8, 64)))
