"""Fragments that have to be in shared memory, and what uses them under another shape."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate


def test_a_reduction_takes_a_fragment_under_another_shape() -> None:
    """The other shape is that of shared memory, from which the reduction takes a copy."""

    @T.prim_func
    def sums(X: T.Tensor((32, 64), "float32"), Y: T.Tensor((32, 16), "float32")) -> None:
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32, 64), "float32")
            groups = T.reshape(x, (32, 4, 16))
            y = T.alloc_fragment((32, 16), "float32")
            T.copy(X, x)
            T.reduce_sum(groups, y, dim=1)
            T.copy(y, Y)

    kernel = tileprof.compile(sums).program.kernel
    x = np.random.default_rng(0).standard_normal((32, 64), dtype=np.float32)
    for target in TARGETS.values():
        y = np.zeros((32, 16), np.float32)
        emulate(compile_cuda(kernel, target).source, kernel, [x.copy(), y])
        np.testing.assert_allclose(y, x.reshape(32, 4, 16).sum(1), rtol=1e-5, atol=1e-5)


def test_a_product_adds_to_a_part_of_a_fragment() -> None:
    """Columns of one fragment for each of two products: each takes a copy, and writes it back."""

    @T.prim_func
    def both(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 128), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c[:, 0:64])
            T.gemm(a, b, c[:, 64:128], transpose_B=True)
            T.copy(c, C)

    kernel = tileprof.compile(both).program.kernel
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    expected = np.concatenate([a @ b, a @ b.T], axis=1)
    for target in TARGETS.values():
        c = np.zeros((64, 128), np.float32)
        emulate(compile_cuda(kernel, target).source, kernel, [a, b, c])
        np.testing.assert_array_equal(c, expected)
