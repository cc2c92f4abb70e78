# mypy: disable-error-code="valid-type"
"""Narrow floats whose bits are computed are stored as they are, not by way of float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from tileprof.binary import read
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.emulator import emulate


@T.prim_func
def every(X: T.Tensor((512, 128), T.uint16), Y: T.Tensor((512, 128), T.bfloat16)) -> None:
    """Each pattern with its last bit turned, as an element."""
    with T.Kernel(8, threads=128) as by:
        y = T.alloc_fragment((64, 128), T.bfloat16)
        for i, j in T.Parallel(64, 128):
            y[i, j] = T.reinterpret(X[by * 64 + i, j] ^ T.uint16(1), T.bfloat16)
        T.copy(y, Y[by * 64, 0])


def test_every_pattern_stays() -> None:
    """All 65,536 of them, signalling NaNs among them; nothing is rounded on the way."""
    kernel = prove_bounds(simplify(tileprof.compile(every).program.kernel))
    program = compile_cuda(kernel, TARGETS["sm_90a"])
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(512, 128)
    found = np.zeros((512, 128), ml_dtypes.bfloat16)
    emulate(program.source, program.kernel, [bits, found], {})
    np.testing.assert_array_equal(found.view(np.uint16), bits ^ 1)
    (function,) = read(program.cubin.bytes).functions.values()
    assert not any(i.opcode.startswith("F2F") for i in function.instructions)
