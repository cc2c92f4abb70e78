"""Variables that a producer warp group computes by itself, in the order in which blocks walk."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.copies import TmaLoad
from tileprof.runtime.cuda.host_values import HostProgram

SIZES = (64, 20, 100)
ROWS = sum(SIZES)
BLOCKS = sum(-(-size // 64) for size in SIZES)


def grouped() -> ir.Kernel:
    """Products of groups of rows with matrices of their own; each block looks for its group."""

    @T.prim_func
    def grouped(
        A: T.Tensor((ROWS, 64), "float16"),
        B: T.Tensor((len(SIZES), 64, 64), "float16"),
        starts: T.Tensor((len(SIZES),), "int32"),
        padded: T.Tensor((len(SIZES),), "int32"),
        sizes: T.Tensor((len(SIZES),), "int32"),
        C: T.Tensor((ROWS, 64), "float32"),
    ) -> None:
        with T.Kernel(BLOCKS, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            group = T.alloc_var("int32")
            group = 0
            for i in range(len(SIZES)):
                group = T.if_then_else(bx * 64 >= padded[i], i, group)
            first = bx * 64 - padded[group] + starts[group]
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[first, k * 32], a)
                T.copy(B[group, k * 32, 0], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(64, 64):
                if i < sizes[group] + padded[group] - bx * 64:
                    C[first + i, j] = c[i, j]

    held: ir.Kernel = tileprof.compile(grouped).program.kernel
    return held


@pytest.mark.parametrize("persistent", [False, True])
def test_a_persistent_producer_finds_the_group_of_each_tile(persistent: bool) -> None:
    """Once in a loop over tiles, the variable still follows from the tile, not from the host."""
    controls = Controls(persistent=persistent)
    program = compile_cuda(grouped(), TARGETS["sm_90a"], controls)
    assert sum(isinstance(r.decision, TmaLoad) for r in program.remarks) == 2
    (launch,) = program.source.launches
    assert bool(launch.persistent) == persistent
    HostProgram.of(program.kernel, program.source.host)
    assert not program.source.host
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((ROWS, 64), (len(SIZES), 64, 64)))
    starts = np.cumsum([0, *SIZES[:-1]]).astype(np.int32)
    padded = np.cumsum([0, *(-(-s // 64) * 64 for s in SIZES[:-1])]).astype(np.int32)
    c = np.zeros((ROWS, 64), np.float32)
    given = [a, b, starts, padded, np.array(SIZES, np.int32), c]
    emulate(program.source, program.kernel, given, seed=1, resident=2)
    ends = [*starts[1:], ROWS]
    want = [a[s:e].astype(np.float32) @ b[g] for g, (s, e) in enumerate(zip(starts, ends))]
    np.testing.assert_allclose(c, np.concatenate(want), atol=1e-2)
