"""Fragments that have to be in shared memory, and what uses them under another shape."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np

import tileprof
import tileprof.lang as T
from tests.emulator import emulate
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS


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
