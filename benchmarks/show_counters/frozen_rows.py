"""Kernels of rows, tables and images whose pages were frozen on 2026-11-28.

A run on an H200 judged them on 2026-11-29 (benchmarks/results/show-counters-fresh.json); since then
tests compare their pages with these counters.  Products are in `frozen_products`.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.kernels import Case

_BF16 = ml_dtypes.bfloat16


@tileprof.jit
def centred_rows(X, Pivot):
    """Rows less an element of theirs that a tensor names, which stays in shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Pivot: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        centre = T.alloc_shared((1,), T.float32)
        centre[0] = X[row, Pivot[row]]
        for j in T.Parallel(N):
            Y[row, j] = X[row, j] - centre[0]
    return Y


@tileprof.jit
def clipped_to_half(X, Low, High, rows: int = 8, columns: int = 256):
    """Elements kept between bounds of their column, as half-precision floats; tiles are cut."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Low: T.Tensor((N,), T.float32)
    High: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            Y[y, x] = T.cast(T.min(T.max(X[y, x], Low[x]), High[x]), T.float16)
    return Y


@tileprof.jit
def open_sigmoid(X, rows: int = 16, columns: int = 128):
    """A sigmoid of a matrix whose extents are known at launch only."""
    M, N = T.dynamic("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            x = T.cast(X[by * rows + i, bx * columns + j], T.float32)
            Y[by * rows + i, bx * columns + j] = 1.0 / (1.0 + T.exp2(x * -1.44269504))
    return Y


@tileprof.jit
def odd_rows_doubled(X):
    """Rows of 257 elements of which every other one is doubled."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    rows, columns = 4, 64
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y % 2 == 1:
                Y[y, x] = X[y, x] * 2.0
            else:
                Y[y, x] = X[y, x]
    return Y


@tileprof.jit
def bytes_to_levels(X, Scale, Zero):
    """Whole numbers of 8 bits as floats, with a scale and a zero of each row's group of 128."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.uint8)
    Scale: T.Tensor((M, N // 128), T.float32)
    Zero: T.Tensor((M, N // 128), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // 512, T.ceildiv(M, 4), threads=128) as (bx, by):
        for i, j in T.Parallel(4, 512):
            y, x = by * 4 + i, bx * 512 + j
            level = T.cast(X[y, x], T.float32) - Zero[y, x // 128]
            Y[y, x] = T.cast(level * Scale[y, x // 128], T.bfloat16)
    return Y


@tileprof.jit
def rows_by_bucket(X, Bucket, Sums):
    """Rows added up by the bucket that each is in; the last tile is cut."""
    M, N, B = T.const("M, N, B")
    X: T.Tensor((M, N), T.float32)
    Bucket: T.Tensor((M,), T.int32)
    Sums: T.Tensor((B, N), T.float32)
    with T.Kernel(N // 128, T.ceildiv(M, 8), threads=128) as (bx, by):
        for i, j in T.Parallel(8, 128):
            if by * 8 + i < M:
                T.atomic_add(Sums[Bucket[by * 8 + i], bx * 128 + j], X[by * 8 + i, bx * 128 + j])


@tileprof.jit
def counted_bins(X, Bins, edge: int = 2048):
    """How many numbers fall into each of 128 bins, counted in shared memory first."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Bins: T.Tensor((128,), T.int32)
    with T.Kernel(T.ceildiv(N, edge), threads=128) as b:
        held = T.alloc_shared((128,), T.int32)
        T.clear(held)
        for j in T.Parallel(edge):
            if b * edge + j < N:
                place = T.cast(X[b * edge + j] * 16.0 + 64.0, T.int32)
                T.atomic_add(held[T.min(T.max(place, 0), 127)], 1)
        for j in T.Parallel(128):
            T.atomic_add(Bins[j], held[j])


@tileprof.jit
def words_by_column(Table, Word, Place):
    """Rows of a table and of another one, both named by lists, added up; columns are cut."""
    V, P, N, M = T.const("V, P, N, M")
    Table: T.Tensor((V, N), T.float16)
    Word: T.Tensor((M,), T.int32)
    Place: T.Tensor((P, N), T.float16)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 16), threads=256) as (bx, by):
        for i, j in T.Parallel(16, 128):
            m, n = by * 16 + i, bx * 128 + j
            if m < M and n < N:
                Y[m, n] = T.cast(Table[Word[m], n], T.float32) + T.cast(Place[m % P, n], T.float32)
    return Y


@tileprof.jit
def blurred(X, rows: int = 16, columns: int = 64):
    """Means over a cross of five pixels, through a tile of shared memory with a border."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        tile = T.alloc_shared((rows + 2, columns + 2), T.float32)
        for i, j in T.Parallel(rows + 2, columns + 2):
            y = T.min(T.max(by * rows + i - 1, 0), M - 1)
            x = T.min(T.max(bx * columns + j - 1, 0), N - 1)
            tile[i, j] = X[y, x]
        for i, j in T.Parallel(rows, columns):
            cross = tile[i, j + 1] + tile[i + 2, j + 1] + tile[i + 1, j] + tile[i + 1, j + 2]
            Y[by * rows + i, bx * columns + j] = (cross + tile[i + 1, j + 1]) * 0.2
    return Y


@tileprof.jit
def edges_of_images(X, rows: int = 8, columns: int = 128):
    """Differences of neighbours across and down, without a border, from global memory."""
    B, M, N = T.const("B, M, N")
    X: T.Tensor((B, M, N), T.float16)
    Y = T.empty((B, M - 1, N - 1), T.float32)
    with T.Kernel(T.ceildiv(N - 1, columns), T.ceildiv(M - 1, rows), B, threads=128) as (bx, by, b):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            here = T.cast(X[b, y, x], T.float32)
            across = T.cast(X[b, y, x + 1], T.float32) - here
            down = T.cast(X[b, y + 1, x], T.float32) - here
            Y[b, y, x] = T.abs(across) + T.abs(down)
    return Y


@tileprof.jit
def turned_by_tiles(X, rows: int = 32, columns: int = 32):
    """A transpose of a matrix of which edges are no multiples of a tile."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        tile = T.alloc_shared((rows, columns), T.float16)
        T.copy(X[by * rows, bx * columns], tile)
        for i, j in T.Parallel(columns, rows):
            Y[bx * columns + i, by * rows + j] = tile[j, i]
    return Y


@tileprof.jit
def heads_first(X, rows: int = 16):
    """Heads of tokens put before the tokens, with a scale."""
    L, H, D = T.const("L, H, D")
    X: T.Tensor((L, H, D), T.bfloat16)
    Y = T.empty((H, L, D), T.bfloat16)
    with T.Kernel(T.ceildiv(L, rows), H, threads=128) as (bx, h):
        for i, d in T.Parallel(rows, D):
            Y[h, bx * rows + i, d] = X[bx * rows + i, h, d] * 0.125
    return Y


@tileprof.jit
def three_largest(X, rows: int = 16):
    """The three largest elements of each row, with their columns."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Value = T.empty((M, 3), T.float32)
    Column = T.empty((M, 3), T.int32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        left = T.alloc_fragment((rows, N), T.float32)
        best = T.alloc_fragment((rows,), T.float32)
        T.copy(X[b * rows, 0], left)
        for k in T.serial(3):
            T.reduce_max(left, best, dim=1)
            for i, j in T.Parallel(rows, N):
                if left[i, j] == best[i]:
                    Column[b * rows + i, k] = j
                    left[i, j] = -1e30
            for i in T.Parallel(rows):
                Value[b * rows + i, k] = best[i]
    return Value, Column


@tileprof.jit
def lower_triangle(X, rows: int = 32, columns: int = 64):
    """A matrix with zeros above its diagonal."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            Y[y, x] = T.if_then_else(x <= y, X[y, x], 0.0)
    return Y


@tileprof.jit
def rows_in_turns(X, Gain):
    """Twelve blocks that each take every twelfth group of rows."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Gain: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(12, threads=128) as b:
        for turn in T.serial(T.ceildiv(M, 48)):
            for i, j in T.Parallel(4, N):
                y = (turn * 12 + b) * 4 + i
                if y < M:
                    Y[y, j] = T.cast(T.cast(X[y, j], T.float32) * Gain[j], T.bfloat16)
    return Y


@tileprof.jit
def widened_through_shared(X, rows: int = 32, columns: int = 128):
    """fp8 elements brought into shared memory, then as float16 into registers and out."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float8_e4m3fn)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(N // columns, M // rows, threads=128) as (bx, by):
        tile = T.alloc_shared((rows, columns), T.float8_e4m3fn)
        held = T.alloc_fragment((rows, columns), T.float16)
        T.copy(X[by * rows, bx * columns], tile)
        T.copy(tile, held)
        T.copy(held, Y[by * rows, bx * columns])
    return Y


FROZEN_ROWS: tuple[Case, ...] = (
    Case(centred_rows, drawn_as(((96, 640), np.float32), ((96,), np.int32, 0, 640)),
         "rows less an element, a scalar in shared memory"),
    Case(clipped_to_half, drawn_as(((70, 600), np.float32), ((600,), np.float32),
                                   ((600,), np.float32)), "bounds of columns, cut tiles"),
    Case(open_sigmoid, drawn_as(((90, 328), _BF16)), "extents known at launch, cut tiles"),
    Case(odd_rows_doubled, drawn_as(((50, 257), np.float32)), "odd strides and two branches"),
    Case(bytes_to_levels, drawn_as(((64, 1024), np.uint8, 0, 256), ((64, 8), np.float32),
                                   ((64, 8), np.float32)), "uint8 with scales of groups"),
    Case(rows_by_bucket, drawn_as(((205, 384), np.float32), ((205,), np.int32, 0, 16),
                                  ((16, 384), np.float32)), "scatter by atomics, a cut tile"),
    Case(counted_bins, drawn_as(((50_000,), np.float32), ((128,), np.int32, 0, 1)),
         "bins in shared memory"),
    Case(words_by_column, drawn_as(((512, 200), np.float16), ((150,), np.int32, 0, 512),
                                   ((32, 200), np.float16)), "two gathers, cut columns"),
    Case(blurred, drawn_as(((100, 300), np.float32)), "stencil through shared memory"),
    Case(edges_of_images, drawn_as(((3, 65, 257), np.float16)), "stencil from global memory"),
    Case(turned_by_tiles, drawn_as(((200, 136), np.float16)), "transpose with cut tiles"),
    Case(heads_first, drawn_as(((200, 6, 64), _BF16)), "heads before tokens, a cut tile"),
    Case(three_largest, drawn_as(((72, 256), np.float32)), "largest elements of rows"),
    Case(lower_triangle, drawn_as(((160, 192), np.float32)), "zeros above the diagonal"),
    Case(rows_in_turns, drawn_as(((150, 512), _BF16), ((512,), np.float32)),
         "blocks that take rows in turns"),
    Case(widened_through_shared, drawn_as(((128, 512), ml_dtypes.float8_e4m3fn)),
         "fp8 through shared memory as float16"),
)  # fmt: skip
