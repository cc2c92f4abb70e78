"""Blocks with more threads than asked for, which hold the sums of a product."""

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
from tileprof.errors import TooLarge
from tileprof.remarks.launches import WiderBlock


def product(rows: int, columns: int) -> ir.Kernel:
    """One tile of a product, scaled by rows, by 128 threads."""

    @T.prim_func
    def product(
        A: T.Tensor((rows, 32), "float16"),
        B: T.Tensor((32, columns), "float16"),
        C: T.Tensor((rows, columns), "float16"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(rows, columns):
                c[i, j] = c[i, j] * i
            T.copy(c, C)

    held: ir.Kernel = tileprof.compile(product).program.kernel
    return held


def wider(program: Any) -> list[WiderBlock]:
    """The decisions about more threads."""
    return [r.decision for r in program.remarks if isinstance(r.decision, WiderBlock)]


@pytest.mark.spread("64-512-256")
@pytest.mark.parametrize(
    ("rows", "columns", "threads"), [(64, 256, 128), (64, 512, 256), (128, 256, 256)]
)
def test_a_block_has_the_threads_that_its_sums_need(rows: int, columns: int, threads: int) -> None:
    """And no more than asked for where these are enough."""
    program = compile_cuda(product(rows, columns), TARGETS["sm_90a"])
    assert program.source.launches[0].threads == threads
    found = [WiderBlock(threads, 128, f"{rows} x {columns}")] if threads > 128 else []
    assert wider(program) == found
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((rows, 32), (32, columns)))
    c = np.zeros((rows, columns), np.float16)
    emulate(program.source, program.kernel, [a, b, c])
    want = a.astype(np.float32) @ b.astype(np.float32) * np.arange(rows)[:, None]
    np.testing.assert_allclose(c.astype(np.float32), want, rtol=1e-2, atol=1e-2)


def test_sums_that_no_block_holds_are_refused() -> None:
    """Four warp groups would have a register for each sum, and none for anything else."""
    with pytest.raises(TooLarge, match="256 x 256"):
        compile_cuda(product(256, 256), TARGETS["sm_90a"])
