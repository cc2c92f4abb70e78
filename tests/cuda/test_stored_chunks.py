# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN202, ANN201, SIM102
"""Results that go out in parts, where they do not fit beside the rings of a persistent kernel."""

import importlib

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.launches import BlockPerTile, MemoryForStaged, PersistentCandidate

forward = importlib.import_module("case_studies.attention")
LIMIT = 5e-3


def lowered(kernel, **controls):
    """The program for an H200, whose blocks are to be persistent."""
    return compile_cuda(kernel, find_target("sm_90a"), Controls(persistent=True, **controls))


def staged(program):
    """Shapes of the buffers on the way out."""
    return [
        o.shape
        for o in program.kernel.ops()
        if isinstance(o, ir.Alloc) and o.space == "shared" and o.result.name.endswith("_staged")
    ]


def reasons(program):
    """Why blocks are not persistent."""
    return [r.rejected for r in program.remarks if isinstance(r.decision, BlockPerTile)]


def error(found, expected):
    """Relative, in the Frobenius norm."""
    return np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected)


def test_narrow_parts():
    """Four parts of 64 bytes a row, beside rings of 176 keys and values."""
    given = forward.inputs(1, 300, 300, 1, 1, 128)
    kernel = forward.attention.compile(
        batch=1, length=300, heads=1, dim=128, keys=300, groups=1, causal=True, block_N=176
    ).program.kernel
    program = lowered(kernel)
    assert program.source.launches[0].persistent
    assert staged(program) == [(128, 32)] * 2
    expected = forward.reference(*given, True)
    for seed in range(2):
        out, lse = np.zeros((1, 300, 1, 128), ml_dtypes.bfloat16), np.zeros((1, 1, 300), np.float32)
        emulate(program.source, program.kernel, [*given, out, lse], {}, seed=seed)
        assert error(out, expected[0]) < LIMIT
        assert error(lse, expected[1]) < LIMIT


@pytest.mark.sweep
def test_columns_of_other_warps_are_no_part():
    """Warps that hold other columns have nothing of a part: tiles of 96 keys go out as a whole."""
    made = importlib.import_module("case_studies.attention_backward")
    shape = {"batch": 1, "length": 512, "heads": 8, "dim": 128, "keys": 4096, "groups": 8}
    program = lowered(made.attention_backward.compile(**shape, block_N=96).program.kernel)
    assert program.cubin.resources
    assert (96, 64) not in staged(program)


def test_results_share_buffers():
    """Gradients of keys and of values, one after the other, beside sums of those of queries."""
    made = importlib.import_module("case_studies.attention_backward")
    shape = {"batch": 1, "length": 200, "heads": 2, "dim": 128, "keys": 256, "groups": 1}
    given = forward.inputs(1, 200, 256, 2, 1, 128)
    d_out = forward.inputs(1, 200, 256, 2, 1, 128, seed=1)[0]
    out, lse = forward.attention(*given, causal=True)
    kernel = made.attention_backward.compile(**shape, causal=True).program.kernel
    program = lowered(kernel)
    assert program.source.launches[0].persistent
    assert sorted(staged(program)) == [(64, 128), (128, 64), (128, 64)]
    expected = made.reference(*given, d_out, True)
    for seed in range(2):
        sums = np.zeros(given[0].shape, np.float32)
        delta = made.row_dots(out, d_out, sums)
        dk, dv = (np.zeros((1, 256, 2, 128), ml_dtypes.bfloat16) for _ in range(2))
        emulate(
            program.source, program.kernel, [*given, d_out, lse, delta, sums, dk, dv], {}, seed=seed
        )
        added = (x.astype(np.float32).sum(2, keepdims=True) for x in (dk, dv))
        for found, wanted in zip([sums * 128**-0.5, *added], expected):
            assert error(found, wanted) < LIMIT


def product(stages, between=False, twice=False):
    """C = A · B through a buffer of the author's own; `between`: sums are cleared before it is
    stored; `twice`: another product goes out from inside of a branch."""

    @T.prim_func
    def main(
        A: T.Tensor((256, 256), T.bfloat16),
        B: T.Tensor((256, 256), T.bfloat16),
        C: T.Tensor((256, 256), T.bfloat16),
        D: T.Tensor((256, 256), T.bfloat16),
    ):
        with T.Kernel(2, 2, threads=256) as (bx, by):
            a = T.alloc_shared((128, 32), T.bfloat16)
            b = T.alloc_shared((32, 128), T.bfloat16)
            out_staged = T.alloc_shared((128, 128), T.bfloat16)
            c = T.alloc_fragment((128, 128), T.float32)
            T.clear(c)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[by * 128, k * 32], a)
                T.copy(B[k * 32, bx * 128], b)
                T.gemm(a, b, c)
            if twice:
                if bx < 1:
                    T.copy(c, D[by * 128, bx * 128])
            T.copy(c, out_staged)
            if between:
                T.clear(c)
            T.copy(out_staged, C[by * 128, bx * 128])
            if between:
                for i, j in T.Parallel(128, 128):
                    D[by * 128 + i, bx * 128 + j] = c[i, j]

    return tileprof.compile(main).program.kernel


def matrices():
    """Operands, and their product; sums are exact."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((256, 256), (256, 256)))
    return a, b, (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16)


@pytest.mark.spread("4-shapes0")
@pytest.mark.parametrize(("stages", "shapes"), [(4, [(128, 128)]), (13, [(128, 32)] * 2)])
def test_a_buffer_of_the_author(stages, shapes):
    """As a whole, and in parts where there are more stages."""
    kernel = product(stages)
    program = lowered(kernel)
    assert staged(program) == shapes
    a, b, want = matrices()
    for seed in range(2):
        c, d = np.zeros_like(want), np.zeros_like(want)
        emulate(program.source, program.kernel, [a, b, c, d], {}, seed=seed)
        np.testing.assert_array_equal(c, want)


def test_sums_that_change_before_they_are_stored() -> None:
    """What the buffer holds is stored, so it stays whole."""
    kernel = product(13, between=True)
    program = lowered(kernel)
    ((rejected,),) = reasons(program)
    assert rejected.candidate == PersistentCandidate()
    assert isinstance(rejected.reason, MemoryForStaged)
    assert rejected.reason.stored == "tile"
    a, b, want = matrices()
    c, d = np.full_like(want, np.nan), np.full_like(want, np.nan)
    emulate(program.source, program.kernel, [a, b, c, d], {}, seed=1)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(d, np.zeros_like(want))


@pytest.mark.sweep
def test_a_result_in_a_branch() -> None:
    """It has buffers of its own: those of another block of ops may not be there."""
    kernel = product(11, twice=True)
    program = lowered(kernel)
    assert len(staged(program)) == 4
    a, b, want = matrices()
    for seed in range(2):
        c, d = np.zeros_like(want), np.zeros_like(want)
        emulate(program.source, program.kernel, [a, b, c, d], {}, seed=seed)
        np.testing.assert_array_equal(c, want)
        np.testing.assert_array_equal(d[:, :128], want[:, :128])
        assert not d[:, 128:].any()


@tileprof.jit
def added(A, B, R):
    """A product and what is added to it."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    R: T.Tensor((M, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, 192), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), T.bfloat16)
        B_shared = T.alloc_shared((192, 64), T.bfloat16)
        R_shared = T.alloc_shared((128, 192), T.bfloat16)
        sums = T.alloc_fragment((128, 192), T.float32)
        T.copy(R[by * 128, bx * 192], R_shared)
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=4):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * 192, k * 64], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(128, 192):
            sums[i, j] += R_shared[i, j]
        T.copy(sums, C[by * 128, bx * 192])
    return C


def test_parts_of_a_width_that_is_no_power_of_two():
    """Their columns are a part of one digit of the register's number."""
    random = np.random.default_rng(0)
    a, b, r = (
        random.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16)
        for s in ((200, 128), (256, 128), (200, 256))
    )
    kernel = added.compile(M=200, N=256, K=128).program.kernel
    program = lowered(kernel)
    assert staged(program) == [(128, 32)] * 2
    out = np.zeros((200, 256), ml_dtypes.bfloat16)
    emulate(program.source, program.kernel, [a, b, r, out], {}, seed=0)
    a, b, r = (x.astype(np.float64) for x in (a, b, r))
    assert error(out, a @ b.T + r) < LIMIT
