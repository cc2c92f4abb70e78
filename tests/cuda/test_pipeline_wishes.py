"""Wishes about buffers that become rings."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np

import tileprof
import tileprof.lang as T
from tests.emulator import emulate
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS


def test_a_layout_may_be_wished_for_a_buffer_of_a_pipeline() -> None:
    """What was asked about the buffer does not keep it beside its ring."""

    @T.prim_func
    def product(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: T.make_swizzled_layout(a)})
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = tileprof.compile(product).program.kernel
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    for target in TARGETS.values():
        c = np.zeros((64, 64), np.float32)
        source = compile_cuda(kernel, target).source
        assert not source.host
        emulate(source, kernel, [a.copy(), b.copy(), c])
        np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2)
