"""Fragments of which one point of several writes an element: all threads that hold it see that."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.layouts import SeveralThreads


@T.prim_func
def one_element(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")) -> None:
    """Element 37 is added to all."""
    with T.Kernel(1, threads=64):
        chosen = T.alloc_fragment((1,), "float32")
        T.clear(chosen)
        for i in T.Parallel(64):
            if i == 37:
                chosen[0] = X[i]
        for i in T.Parallel(64):
            Y[i] = X[i] + chosen[0]


@T.prim_func
def one_of_each_row(X: T.Tensor((8, 32), "float32"), Y: T.Tensor((8, 32), "float32")) -> None:
    """The largest element of each row stays, the others are 0."""
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((8, 32), "float32")
        largest = T.alloc_fragment((8,), "float32")
        at = T.alloc_fragment((8,), "int32")
        T.copy(X, x)
        T.reduce_max(x, largest, dim=1)
        for i, j in T.Parallel(8, 32):
            if x[i, j] == largest[i]:
                at[i] = j
        for i, j in T.Parallel(8, 32):
            Y[i, j] = T.if_then_else(j == at[i], x[i, j], 0)


@T.prim_func
def diagonal_of_a_product(
    X: T.Tensor((64, 32), "float16"), Y: T.Tensor((64, 64), "float32")
) -> None:
    """Rows of ones times the diagonal of X Xᵀ."""
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((64, 32), "float16")
        product = T.alloc_fragment((64, 64), "float32")
        diagonal = T.alloc_fragment((64,), "float32")
        T.copy(X, x)
        T.gemm(x, x, product, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            if i == j:
                diagonal[i] = product[i, j]
        for i, j in T.Parallel(64, 64):
            Y[i, j] = diagonal[j]


def _expected(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    match name:
        case "one_element":
            moved: np.ndarray[Any, Any] = x + x[37]
            return moved
        case "one_of_each_row":
            return np.where(x == x.max(axis=1, keepdims=True), x, 0)
        case _:
            squares: np.ndarray[Any, Any] = (x.astype(np.float32) ** 2).sum(axis=1)
            return np.broadcast_to(squares, (64, 64))


KERNELS = {k.function.__name__: k for k in (one_element, one_of_each_row, diagonal_of_a_product)}


def _compiled(name: str, target: str) -> CudaProgram:
    return compile_cuda(tileprof.compile(KERNELS[name]).program.kernel, TARGETS[target])


@pytest.mark.spread
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", KERNELS)
def test_all_threads_see_what_one_point_wrote(name: str, target: str) -> None:
    """On the emulated GPU as in NumPy; a remark names the fragment and the reason."""
    made = _compiled(name, target)
    source, result = (p.type for p in made.kernel.params)
    assert isinstance(source, ir.BufferType)
    assert isinstance(result, ir.BufferType)
    x = np.random.default_rng(0).integers(-8, 9, source.static_shape)
    x = (x + np.arange(x.size).reshape(x.shape) / 1024 * (name == "one_of_each_row")).astype(
        source.dtype.to_numpy()
    )
    y = np.full(result.static_shape, np.nan, np.float32)
    emulate(made.source, made.kernel, [x, y], seed=1)
    np.testing.assert_array_equal(y, _expected(name, x))
    reasons = [each.reason for remark in made.remarks for each in remark.rejected]
    assert SeveralThreads() in reasons
