"""Fragments of one element that are used as scalars, outside of `T.Parallel`, stay in registers."""

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
from tileprof.emulator import Watch, emulate

Array = np.ndarray[Any, Any]


@T.prim_func
def softmax(X: T.Tensor((4, 192), "float32"), Y: T.Tensor((4, 192), "float32")) -> None:
    """Maximum and sum are running numbers of a row."""
    with T.Kernel(4, threads=64) as bx:
        part = T.alloc_fragment((64,), "float32")
        largest = T.alloc_fragment((1,), "float32")
        before = T.alloc_fragment((1,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.fill(largest, -1e30)
        T.clear(total)
        for k in T.serial(3):
            T.copy(X[bx, k * 64], part)
            T.copy(largest, before)
            T.reduce_max(part, largest, clear=False)
            total[0] = total[0] * T.exp(before[0] - largest[0])
            for i in T.Parallel(64):
                part[i] = T.exp(part[i] - largest[0])
            T.reduce_sum(part, total, clear=False)
        scale = 1.0 / total[0]
        for i in T.Parallel(192):
            Y[bx, i] = T.exp(X[bx, i] - largest[0]) * scale


@T.prim_func
def halved(X: T.Tensor((4, 192), "float32"), Y: T.Tensor((4, 192), "float32")) -> None:
    """Rows are halved until their sum is below 1: a loop ends by a number of all threads."""
    with T.Kernel(4, threads=128) as bx:
        row = T.alloc_fragment((192,), "bfloat16")
        total = T.alloc_fragment((1,), "float32")
        turns = T.alloc_fragment((1,), "bfloat16")
        T.copy(X[bx, 0], row)
        T.reduce_sum(row, total)
        turns[0] = 0
        while total[0] >= 1:
            for i in T.Parallel(192):
                row[i] = row[i] * 0.5
            turns[0] = turns[0] + 1
            T.reduce_sum(row, total)
        if turns[0] > 3:
            turns[0] = turns[0] * -1
        for i in T.Parallel(192):
            Y[bx, i] = T.float32(row[i]) + turns[0]


@T.prim_func
def scaled_product(
    X: T.Tensor((64, 256), "float16"), W: T.Tensor((256, 64), "float16"),
    Y: T.Tensor((64, 64), "float32"),
) -> None:  # fmt: skip
    """Each product is divided by its largest number, under loads that run ahead."""
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((64, 64), "float16")
        w = T.alloc_shared((64, 64), "float16")
        product = T.alloc_fragment((64, 64), "float32")
        total = T.alloc_fragment((64, 64), "float32")
        rows = T.alloc_fragment((64,), "float32")
        largest = T.alloc_fragment((1,), "float32")
        T.clear(total)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(X[0, k * 64], x)
            T.copy(W[k * 64, 0], w)
            T.gemm(x, w, product, clear_accum=True)
            T.reduce_absmax(product, rows, dim=1)
            T.reduce_max(rows, largest)
            if largest[0] > 0:
                scale = 1 / largest[0]
                for i, j in T.Parallel(64, 64):
                    total[i, j] += product[i, j] * scale
        T.copy(total, Y)


def _expected(name: str, given: list[Array]) -> Array:
    x = given[0].astype(np.float64)
    if name == "softmax":
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))
    if name == "halved":
        turns = np.floor(np.log2(x.sum(axis=1, keepdims=True))) + 1
        return np.asarray(x / 2**turns + np.where(turns > 3, -turns, turns))
    parts = [x[:, k : k + 64] @ given[1][k : k + 64].astype(np.float64) for k in range(0, 256, 64)]
    return np.asarray(sum(p / np.abs(p).max() for p in parts))


KERNELS = {k.function.__name__: k for k in (softmax, halved, scaled_product)}


def _compiled(name: str, target: str) -> CudaProgram:
    return compile_cuda(tileprof.compile(KERNELS[name]).program.kernel, TARGETS[target])


def _given(kernel: ir.Kernel) -> list[Array]:
    rng = np.random.default_rng(0)
    types = [p.type for p in kernel.params if isinstance(p.type, ir.BufferType)]
    # Whole numbers: sums in bfloat16 and float16 are exact.
    made = [rng.integers(1, 5, t.static_shape).astype(t.dtype.to_numpy()) for t in types]
    made[-1][:] = np.nan
    return made


@pytest.mark.spread("softmax-sm_90a", "halved-sm_80")
@pytest.mark.parametrize(
    ("name", "target"),
    [("softmax", "sm_90a"), ("halved", "sm_80"), ("scaled_product", "sm_90a")],
)
def test_all_threads_have_the_number(name: str, target: str) -> None:
    """On the emulated GPU as in NumPy, without a race and without shared memory for the number."""
    made = _compiled(name, target)
    assert not [r for r in made.remarks if r.op == "buffer"]
    for seed in range(2):
        given, watch = _given(made.kernel), Watch()
        emulate(made.source, made.kernel, given, seed=seed, watch=watch)
        assert not watch.found
        np.testing.assert_allclose(given[-1], _expected(name, given[:-1]), rtol=1e-4, atol=1e-6)


def test_running_numbers_of_a_row_need_no_barrier() -> None:
    """Each warp of a softmax holds whole rows, so shuffles among its lanes are enough."""
    assert "tp_barrier" not in _compiled("softmax", "sm_90a").source.text
