# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Boxes of TMA begin at multiples of 128 bytes of shared memory: panels of few rows, slots of small
tiles; and have at most 256 elements a row."""

import itertools

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import run_together
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.copies import BoxColumns, TileStart, TmaLoad, TmaStore


@tileprof.jit
def looked_up(A, B, Table, C):
    """A · Bᵀ, each element of B looked up in a table that every tile of the result loads anew."""
    M, N, K, size = T.const("M, N, K, size")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.uint8)
    Table: T.Tensor((size,), T.float32)
    C: T.Tensor((M, N), T.float16)
    with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
        left = T.alloc_shared((64, 64), T.float16)
        codes = T.alloc_shared((64, 64), T.uint8)
        right = T.alloc_shared((64, 64), T.float16)
        table = T.alloc_shared((size,), T.float32)
        sums = T.alloc_fragment((64, 64), T.float32)
        T.copy(Table, table)
        T.clear(sums)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[by * 64, k * 64], left)
            T.copy(B[bx * 64, k * 64], codes)
            for i, j in T.Parallel(64, 64):
                right[i, j] = table[T.cast(codes[i, j], T.int32)]
            T.gemm(left, right, sums, transpose_B=True)
        T.copy(sums, C[by * 64, bx * 64])


@tileprof.jit
def scaled(A, B, Scales, C, rows: int, columns: int):
    """Σ over k of A[k] · B[k]ᵀ times the sum of a tile of scales that has few bytes."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    Scales: T.Tensor((K // 64 * rows, columns), T.float32)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
        left = T.alloc_shared((64, 64), T.float16)
        right = T.alloc_shared((64, 64), T.float16)
        scales = T.alloc_shared((rows, columns), T.float32)
        sums = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.clear(total)
        for k in T.Pipelined(K // 64, num_stages=3):
            T.copy(A[by * 64, k * 64], left)
            T.copy(B[bx * 64, k * 64], right)
            T.copy(Scales[k * rows, 0], scales)
            T.gemm(left, right, sums, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] += sums[i, j] * scales[i % rows, j % columns]
        T.copy(total, C[by * 64, bx * 64])


@tileprof.jit
def doubled(X, Y, rows: int):
    """Y = 2 X, through shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_shared((rows, N), T.float32)
        T.copy(X[bx * rows, 0], x)
        for i, j in T.Parallel(rows, N):
            x[i, j] = 2 * x[i, j]
        T.copy(x, Y[bx * rows, 0])


@tileprof.jit
def shifted(A, B, Starts, C, first: int, loaded: bool):
    """A product with the part of A from a column on, or from one that a list names."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K + 64), T.float16)
    B: T.Tensor((N, K), T.float16)
    Starts: T.Tensor((1,), T.int32)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
        left = T.alloc_shared((64, 64), T.float16)
        right = T.alloc_shared((64, 64), T.float16)
        sums = T.alloc_fragment((64, 64), T.float32)
        T.clear(sums)
        for k in T.Pipelined(K // 64, num_stages=2):
            if loaded:
                T.copy(A[by * 64, k * 64 + Starts[0] * first], left)
            else:
                T.copy(A[by * 64, k * 64 + first], left)
            T.copy(B[bx * 64, k * 64], right)
            T.gemm(left, right, sums, transpose_B=True)
        T.copy(sums, C[by * 64, bx * 64])


def lowered(kernel: tileprof.jit, persistent: bool | None = None, **options: int) -> CudaProgram:
    """For an H200."""
    held, controls = kernel.compile(**options).program.kernel, Controls(persistent=persistent)
    program = compile_cuda(held, find_target("sm_90a"), controls)
    ir.verify(program.kernel)
    return program


def moved(program: CudaProgram) -> list[str]:
    """What TMA loads and stores."""
    return [r.subject for r in program.remarks if isinstance(r.decision, TmaLoad | TmaStore)]


def whole(rng: np.random.Generator, shape: tuple[int, ...], dtype) -> np.ndarray:
    """Small whole numbers."""
    return rng.integers(-2, 3, shape).astype(dtype)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(("first", "start"), [(8, 0), (16, 0), (4, 8), (3, 2)])
def test_boxes_begin_at_16_bytes_of_a_row(first: int, start: int, loaded: bool) -> None:
    """Elsewhere an H200 ends the launch; `start` is what of the column is known, in bytes."""
    program = lowered(shifted, M=128, N=128, K=256, first=first, loaded=loaded)
    reasons = {each.reason for remark in program.remarks for each in remark.rejected}
    assert ("copy A → left" in moved(program)) == (start == 0)
    found = {(r.start, r.multiple) for r in reasons if isinstance(r, TileStart)}
    assert found == ({(start, 16)} if start else set())


def test_slots_of_a_small_table() -> None:
    """Persistent blocks load the table of their second tile into the second slot."""
    m, n, k = 256, 128, 128
    runs = []
    for size in (16, 48, 512, 1000):
        program = lowered(looked_up, persistent=True, M=m, N=n, K=k, size=size)
        # 1,000 elements are no boxes of at most 256 that begin at multiples of 128 bytes.
        assert any("able" in each for each in moved(program)) == (size < 1000)
        rng = np.random.default_rng(0)
        a, table = whole(rng, (m, k), np.float16), whole(rng, (size,), np.float32)
        b, c = rng.integers(0, size, (n, k)).astype(np.uint8), np.zeros((m, n), np.float16)
        runs.append((program, (a, b, table, c)))
    run_together(runs)
    for _, (a, b, table, c) in runs:
        want = (a.astype(np.float32) @ table[b].T).astype(np.float16)
        np.testing.assert_array_equal(c, want, err_msg=str(len(table)))


def test_slots_of_small_tiles() -> None:
    """With and without a swizzle."""
    m, n, k = 64, 64, 256
    runs, shapes = [], [(1, 4), (2, 4), (3, 4), (2, 8), (3, 8), (3, 16)]
    for rows, columns in shapes:
        program = lowered(scaled, M=m, N=n, K=k, rows=rows, columns=columns)
        rng = np.random.default_rng(0)
        a, b = whole(rng, (m, k), np.float16), whole(rng, (n, k), np.float16)
        scales, c = whole(rng, (k // 64 * rows, columns), np.float32), np.zeros((m, n), np.float32)
        runs.append((program, (a, b, scales, c)))
    run_together(runs)
    for (rows, columns), (_, (a, b, scales, c)) in zip(shapes, runs):
        want = np.zeros((m, n), np.float32)
        i, j = np.arange(m)[:, None] % rows, np.arange(n) % columns
        for at in range(k // 64):
            part = slice(at * 64, at * 64 + 64)
            product = a[:, part].astype(np.float32) @ b[:, part].T.astype(np.float32)
            want += product * scales[at * rows :][i, j]
        np.testing.assert_array_equal(c, want, err_msg=f"{rows} x {columns}")


def test_panels_of_few_rows() -> None:
    """Each panel begins at a multiple."""
    runs = []
    for rows, columns in itertools.product((1, 3, 9, 17), (40, 48, 1000)):
        x = np.arange(2 * rows * columns, dtype=np.float32).reshape(2 * rows, columns)
        runs.append((lowered(doubled, M=2 * rows, N=columns, rows=rows), (x, np.zeros_like(x))))
    run_together(runs)
    for _, (x, y) in runs:
        np.testing.assert_array_equal(y, 2 * x, err_msg=str(x.shape))


@tileprof.jit
def raised(X, Y, rows: int, columns: int, words: bool):
    """Y = X + 1, by bytes or by words of four."""
    M = T.const("M")
    X: T.Tensor((M, columns), T.uint8)
    Y: T.Tensor((M, columns), T.uint8)
    with T.Kernel(M // rows, threads=128) as bx:
        x = T.alloc_shared((rows, columns), T.uint8)
        T.copy(X[bx * rows, 0], x)
        if words:
            held = T.view(x, (rows, columns // 4), T.int32)
            for i, j in T.Parallel(rows, columns // 4):
                held[i, j] = held[i, j] + 0x01010101
        else:
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] + 1
        T.copy(x, Y[bx * rows, 0])


@pytest.mark.parametrize(
    ("columns", "words", "swizzle", "by_tma"),
    [(96, True, True, True), (288, True, True, False), (288, False, False, False),
     (288, False, True, True)],
)  # fmt: skip
def test_rows_that_are_wider_than_a_box(
    columns: int, words: bool, swizzle: bool, by_tma: bool
) -> None:
    """Without a swizzle they are not cut, and the driver would refuse the box."""
    held = raised.compile(M=34, rows=17, columns=columns, words=words).program.kernel
    program = compile_cuda(held, find_target("sm_90a"), Controls(swizzle=swizzle))
    assert bool(moved(program)) == by_tma
    said = [r.reason for each in program.remarks for r in each.rejected]
    assert (BoxColumns(columns, 256) in said) != by_tma
    x = np.random.default_rng(0).integers(0, 9, (34, columns)).astype(np.uint8)
    y = np.zeros_like(x)
    emulate(program.source, program.kernel, [x, y])
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize(
    ("rows", "columns", "boxes"),
    [(3, 1000, 0), (16, 1000, 125), (3, 1024, 0), (4, 1024, 32), (3, 96, 3), (64, 64, 2)],
)
def test_boxes_of_few_bytes_are_stored_by_threads(rows: int, columns: int, boxes: int) -> None:
    """One thread gives an instruction for each box, which pays where boxes are large or few."""
    program = lowered(doubled, M=4 * rows, N=columns, rows=rows)
    assert program.source.text.count("tp_tma_store(") == boxes
    (stored,) = [each for each in program.remarks if each.subject.endswith("→ Y")]
    if boxes:
        assert isinstance(stored.decision, TmaStore)
    else:
        count, size = (125, 96) if columns == 1000 else (32, 384)
        assert str(stored.decision) == "loads and stores"
        assert f"{count} boxes of {size} B each take longer" in stored.against
