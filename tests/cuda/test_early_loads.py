# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Loads that begin before a product: which of them, and the same numbers as behind it."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import PASSES, CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

ROUNDS = 3


@tileprof.jit
def decayed(A, B, G, D, C, written: bool = False, threads: int = 256, down: bool = False):
    """Products of the rounds, whose rows and the sum are scaled by what threads load themselves."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((64 * ROUNDS, 2), T.float32)
    D: T.Tensor((64, 2), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        g = T.alloc_shared((64,), T.float32)
        d = T.alloc_fragment((64,), T.float32)
        last = T.alloc_var(T.float32)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for turn in T.Pipelined(ROUNDS, num_stages=2):
            step = ROUNDS - 1 - turn if down else turn
            T.copy(A[step * 64, 0], a)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            last = G[step * 64 + 63, 1]
            for i in T.Parallel(64):
                g[i] = G[step * 64 + i, 1] * 2
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * g[i] + last
        for i in T.Parallel(64):
            d[i] = D[i, 0]
        for i, j in T.Parallel(64, 64):
            total[i, j] = total[i, j] + d[i]
        if written:
            for i in T.Parallel(64):
                D[i, 0] = 1
        T.copy(total, C)


def check(**options: object) -> CudaProgram:
    """The program, whose sums are right for several orders of threads."""
    kernel = decayed.compile(**options).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g, d = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64 * ROUNDS, 2), (64, 2)))
    want = np.repeat(d[:, :1], 64, 1)
    for step in range(ROUNDS):
        rows = slice(step * 64, step * 64 + 64)
        part = a[rows].astype(np.float32) @ b.astype(np.float32).T
        want = want + part * g[rows, 1:] * 2 + g[rows, 1][-1]
    for seed in range(3):
        c = np.zeros((64, 64), np.float32)
        emulate(program.source, program.kernel, [a, b, g, d.copy(), c], seed=seed)
        np.testing.assert_array_equal(c, want)
    return program


@pytest.mark.parametrize("written", [False, True])
def test_loads_behind_products_begin_before_them(written: bool) -> None:
    """A scalar, what goes to shared memory and what goes to registers; not from a tensor that the
    launch writes."""
    program = check(written=written)
    told = [r.name for r in program.remarks if "before the product" in str(r)]
    assert told == (["G"] if written else ["G", "D"])
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    (body,) = (o.body for o in loops if any(isinstance(i, ir.AsyncGemm) for i in o.body.ops))
    ops = list(ir.walk(body))
    product = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm))
    loads = [at for at, o in enumerate(ops) if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(loads) == 2
    assert max(loads) < product


@pytest.mark.parametrize("down", [False, True])
def test_one_warp_group_loads_an_iteration_ahead(down: bool) -> None:
    """In front of the loop for the first one, then behind the last use; the last loads again what
    it has.  What stands behind the loop is loaded in front of it, as for other blocks."""
    program = check(threads=128, down=down)
    told = {r.name: str(r) for r in program.remarks if "ahead of its use" in str(r)}
    assert list(told) == ["G"]
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    (loop,) = (o for o in loops if any(isinstance(i, ir.AsyncGemm) for i in o.body.ops))
    ops = list(ir.walk(loop.body))
    product = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm))
    loads = [at for at, o in enumerate(ops) if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(loads) == 2
    assert min(loads) > product
    every = [o for o in program.kernel.ops() if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(every) == 4


@tileprof.jit
def scaled(X, Y):
    """No product."""
    X: T.Tensor((128,), T.float32)
    Y: T.Tensor((128,), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((128,), T.float32)
        T.copy(X, x)
        for i in T.Parallel(128):
            Y[i] = x[127 - i] * 2


def test_kernel_without_products_is_as_it_was() -> None:
    """Nothing is waited for, so nothing has to move."""
    seen = {}

    def observe(name: str, kernel: ir.Kernel) -> None:
        seen[name] = [o.SPEC.name for o in kernel.ops()]

    compile_cuda(scaled.compile().program.kernel, find_target("sm_90a"), observe=observe)
    names = [p.name for p in PASSES]
    assert seen["early_loads"] == seen[names[names.index("early_loads") - 1]]


@tileprof.jit
def rescaled(A, B, G, H, C, threads: int = 128):
    """Products of the rounds, each scaled by its rows and its columns."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((64, ROUNDS), T.float32)
    H: T.Tensor((ROUNDS, 64), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for step in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[step * 64, 0], a)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * (G[i, step] * H[step, j])
        T.copy(total, C)


@pytest.mark.parametrize("threads", [128, 256])
def test_scales_of_rows_and_columns_are_held_once_each(threads: int) -> None:
    """Not once for each point, for which there would be no registers; where one warp group
    computes, its slot is free before it scales."""
    program = compile_cuda(rescaled.compile(threads=threads).program.kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    held = [o for o in program.kernel.ops() if isinstance(o, ir.Alloc) and "early" in o.result.name]
    assert [o.shape for o in held] == [(64,), (64,)]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g, h = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64, ROUNDS), (ROUNDS, 64)))
    parts = (a.astype(np.float32) @ b.astype(np.float32).T).reshape(ROUNDS, 64, 64)
    want = sum(parts[s] * g[:, s, None] * h[s] for s in range(ROUNDS))
    for seed in range(3):
        c = np.zeros((64, 64), np.float32)
        emulate(program.source, program.kernel, [a, b, g, h, c], seed=seed)
        np.testing.assert_array_equal(c, want)
    (loop,) = (
        o
        for o in program.kernel.ops()
        if isinstance(o, ir.For) and any(isinstance(i, ir.AsyncGemm) for i in o.body.ops)
    )
    free = next(at for at, o in enumerate(loop.body.ops) if isinstance(o, ir.RingRelease))
    adds = next(
        at
        for at, o in enumerate(loop.body.ops)
        if isinstance(o, ir.Parallel)
        and any(isinstance(i, ir.Store) and i.buffer.name == "total" for i in o.body.ops)
    )
    assert (free < adds) == (threads == 128)
