# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201
"""Products in slices of rows: which of them, and the same numbers as in one piece."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from benchmarks.studies import study
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.copies import TmaStore
from tileprof.remarks.products import RowSlices

ROUNDS = 2


@tileprof.jit
def added(A, B, G, C, word: str = "", columns: int = 128):
    """Products of the rounds, whose rows are scaled by what a fragment holds."""
    A: T.Tensor((256, 64 * ROUNDS), T.float8_e4m3)
    B: T.Tensor((columns, 64 * ROUNDS), T.float8_e4m3)
    G: T.Tensor((ROUNDS, 256), T.float32)
    C: T.Tensor((256, columns), T.float32)
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((256, 64), T.float8_e4m3)
        b = T.alloc_shared((columns, 64), T.float8_e4m3)
        out = T.alloc_shared((256, columns), T.float32)
        part = T.alloc_fragment((256, columns), T.float32)
        total = T.alloc_fragment((256, columns), T.float32)
        most = T.alloc_fragment((256,), T.float32)
        scale = T.alloc_fragment((256,), T.float32)
        T.clear(total)
        T.clear(part)
        for k in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, part, transpose_B=True, clear_accum=word != "sums")
            for i in T.Parallel(256):
                scale[i] = G[k, i] * 2
            if word == "reduced":
                T.reduce_max(part, most, dim=1)
            for i, j in T.Parallel(256, columns):
                if word == "turned":
                    total[i, j] += part[255 - i, j]
                else:
                    total[i, j] += part[i, j] * scale[i]
            if word == "stored":
                for i, j in T.Parallel(256, columns):
                    out[i, j] = part[i, j]
                for i, j in T.Parallel(256, columns):
                    total[i, j] += out[255 - i, j] - part[i, j]
        if word == "shared":
            T.copy(total, out)
            T.copy(out, C)
        else:
            T.copy(total, C)


def lowered(word: str = "", **options) -> CudaProgram:
    """For an H200."""
    kernel = added.compile(word=word, **options).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    return program


def slices(program: CudaProgram) -> list[RowSlices]:
    """What was said about them."""
    return [r.decision for r in program.remarks if isinstance(r.decision, RowSlices)]


@pytest.mark.spread("shared")
@pytest.mark.parametrize("word", ["", "shared"])
def test_right_results(word: str) -> None:
    """Of a fragment for each row too, whether the sum goes out at once or by the author's tile."""
    program = lowered(word)
    assert slices(program) == [RowSlices(2, 256)]
    products = [o for o in program.kernel.ops() if isinstance(o, ir.AsyncGemm)]
    assert [o.gemm.mnk for o in products] == [(128, 128, 64)] * 2
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, (rows, 64 * ROUNDS)).astype(ml_dtypes.float8_e4m3fn)
        for rows in (256, 128)
    )
    g = rng.integers(-3, 4, (ROUNDS, 256)).astype(np.float32)
    parts = [x.astype(np.float32).reshape(-1, ROUNDS, 64).swapaxes(0, 1) for x in (a, b)]
    want = sum(2 * g[k, :, None] * (parts[0][k] @ parts[1][k].T) for k in range(ROUNDS))
    for seed in range(2):
        c = np.zeros((256, 128), np.float32)
        emulate(program.source, program.kernel, [a, b, g, c], seed=seed)
        np.testing.assert_array_equal(c, want)


@tileprof.jit
def kept(A, B, P, C, stages: int = 2):
    """Products of the rounds as they are, and their sum."""
    A: T.Tensor((256, 64 * ROUNDS), T.bfloat16)
    B: T.Tensor((128, 64 * ROUNDS), T.bfloat16)
    P: T.Tensor((ROUNDS, 256, 128), T.float32)
    C: T.Tensor((1, 200, 120), T.float32)
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((256, 64), T.bfloat16)
        b = T.alloc_shared((128, 64), T.bfloat16)
        part = T.alloc_fragment((256, 128), T.float32)
        total = T.alloc_fragment((256, 128), T.float32)
        T.clear(total)
        for k in T.Pipelined(ROUNDS, num_stages=stages):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(256, 128):
                total[i, j] += part[i, j]
            T.copy(part, P[k, 0, 0])
        T.copy(total, C[0, 0, 0])


@pytest.mark.spread("3")
@pytest.mark.parametrize("stages", [2, 3])
def test_products_that_go_out(stages: int) -> None:
    """To a part of a tensor, slice by slice; so does the sum where no room is left to stage it."""
    kernel = kept.compile(stages=stages).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), observe=lambda _, each: ir.verify(each))
    assert slices(program) == [RowSlices(2, 256)]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, (rows, 64 * ROUNDS)).astype(ml_dtypes.bfloat16) for rows in (256, 128)
    )
    p, c = np.zeros((ROUNDS, 256, 128), np.float32), np.zeros((1, 200, 120), np.float32)
    emulate(program.source, program.kernel, [a, b, p, c])
    parts = [x.astype(np.float32).reshape(-1, ROUNDS, 64).swapaxes(0, 1) for x in (a, b)]
    want = parts[0] @ parts[1].swapaxes(1, 2)
    np.testing.assert_array_equal(p, want)
    np.testing.assert_array_equal(c[0], want.sum(0)[:200, :120])


@pytest.mark.parametrize("word", ["sums", "reduced", "turned", "stored"])
def test_whole_products(word: str) -> None:
    """Where sums go on from one iteration to the next, other ops use the product, rows of one slice
    go into another, or would be read before they are written."""
    assert slices(lowered(word)) == []


def test_fragments_that_fit() -> None:
    """There is nothing to gain."""
    assert slices(lowered(columns=64)) == []


def test_product_with_scales_of_blocks() -> None:
    """In a tile of twice as many rows: no spills, two products of four instructions in an
    iteration, and a result that TMA stores as a whole."""
    made = study("block_scaled_gemm")
    shape = {"block_M": 256, "threads": 256, "stages": 3}
    large = made.block_scaled_gemm.compile(M=8192, N=8192, K=8192, **shape).program.kernel
    program = compile_cuda(large, find_target("sm_90a"))
    assert slices(program) == [RowSlices(2, 256)]
    assert [r.subject for r in program.remarks if isinstance(r.decision, TmaStore)] == [
        "copy C_staged → C"
    ]
    pytest.importorskip("cuda.bindings.nvrtc")
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    assert {r.spill_stores for r in program.cubin.resources.values()} == {0}


def test_rows_beyond_the_tile() -> None:
    """The last tile is not full, and groups take turns."""
    made = study("block_scaled_gemm")
    given = made.inputs(300, 136, 384)
    kernel = made.block_scaled_gemm.compile(
        M=300, N=136, K=384, block_M=256, threads=256, stages=2
    ).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), Controls(ping_pong=True))
    assert slices(program)
    c = np.zeros((300, 136), ml_dtypes.bfloat16)
    emulate(program.source, program.kernel, [*given, c])
    want = made.reference(*given)
    assert np.linalg.norm(c.astype(np.float64) - want) < 2.5e-3 * np.linalg.norm(want)
