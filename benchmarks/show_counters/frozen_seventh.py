"""A seventh set of kernels whose pages were written down before a GPU ran them: rows and products.

An H200 ran them on 2026-11-30 at 06:11 UTC for the first time: 229 of 242 numbers were exact.  The
13 others were in three kernels (docs/show.md).  Since then they are development kernels.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.kernels import Case

_BF16, _E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2


@tileprof.jit
def signs_split(X, rows: int = 4, columns: int = 64):
    """Positive numbers into one result, others into another, in branches of a condition."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((2, M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=64) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            if by * rows + i < M and bx * columns + j < N:
                if X[by * rows + i, bx * columns + j] > 0.0:
                    Y[0, by * rows + i, bx * columns + j] = X[by * rows + i, bx * columns + j]
                else:
                    Y[1, by * rows + i, bx * columns + j] = -X[by * rows + i, bx * columns + j]
    return Y


@tileprof.jit
def whole_numbers_chosen(A, B, Pick, part: int = 512):
    """One of two rows of 16-bit numbers, by a mask, in whole tiles."""
    N = T.const("N")
    A: T.Tensor((N,), T.int16)
    B: T.Tensor((N,), T.int16)
    Pick: T.Tensor((N,), T.uint8)
    Y = T.empty((N,), T.int16)
    with T.Kernel(N // part, threads=128) as b:
        for j in T.Parallel(part):
            if Pick[b * part + j] != 0:
                Y[b * part + j] = A[b * part + j]
            else:
                Y[b * part + j] = B[b * part + j]
    return Y


@tileprof.jit
def rows_shifted_and_scaled(X, Shift, Scale, rows: int = 8, columns: int = 160):
    """Halves minus a shift, times a scale of their row, in registers; the last rows are cut."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Shift: T.Tensor((M,), T.float32)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        held = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], held)
        for i, j in T.Parallel(rows, columns):
            if by * rows + i < M:
                held[i, j] = (held[i, j] - Shift[by * rows + i]) * Scale[by * rows + i]
        T.copy(held, Y[by * rows, bx * columns])
    return Y


@tileprof.jit
def columns_offset(X, Offset, rows: int = 16, columns: int = 64):
    """8-bit floats plus an offset of their column, as float32; tiles are cut in both directions."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float8_e5m2)
    Offset: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=64) as (bx, by):
        held = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], held)
        for i, j in T.Parallel(rows, columns):
            if bx * columns + j < N:
                held[i, j] += Offset[bx * columns + j]
        T.copy(held, Y[by * rows, bx * columns])
    return Y


@tileprof.jit
def doubles_in_steps(X, part: int = 256):
    """Every third of a row of doubles, from shared memory; the last block has few."""
    N = T.const("N")
    X: T.Tensor((N,), T.float64)
    Y = T.empty((N // 3,), T.float64)
    with T.Kernel(T.ceildiv(N // 3, part), threads=128) as b:
        held = T.alloc_shared((part * 3,), T.float64)
        for j in T.Parallel(part * 3):
            held[j] = T.if_then_else(b * part * 3 + j < N, X[b * part * 3 + j], 0.0)
        for j in T.Parallel(part):
            if b * part + j < N // 3:
                Y[b * part + j] = held[j * 3]
    return Y


@tileprof.jit
def long_words_reversed(X, part: int = 192):
    """Rows of 64-bit numbers backwards through shared memory, 96 threads."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int64)
    Y = T.empty((M, N), T.int64)
    with T.Kernel(T.ceildiv(N, part), M, threads=96) as (b, m):
        held = T.alloc_shared((part,), T.int64)
        for j in T.Parallel(part):
            held[j] = T.if_then_else(b * part + j < N, X[m, b * part + j], 0)
        for j in T.Parallel(part):
            if N - 1 - b * part - j >= 0:
                Y[m, N - 1 - b * part - j] = held[j]
    return Y


@tileprof.jit
def three_planes(X, part: int = 256):
    """Pixels of three bytes each, as three planes."""
    N = T.const("N")
    X: T.Tensor((N, 3), T.uint8)
    Y = T.empty((3, N), T.uint8)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        for j, c in T.Parallel(part, 3):
            if b * part + j < N:
                Y[c, b * part + j] = X[b * part + j, c]
    return Y


@tileprof.jit
def doubled_pixels(X, rows: int = 4, columns: int = 32):
    """Each pixel four times: an image of twice the height and width."""
    H, V = T.const("H, V")
    X: T.Tensor((H, V), T.bfloat16)
    Y = T.empty((H * 2, V * 2), T.bfloat16)
    with T.Kernel(T.ceildiv(V * 2, columns), T.ceildiv(H * 2, rows), threads=64) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            if by * rows + i < H * 2 and bx * columns + j < V * 2:
                Y[by * rows + i, bx * columns + j] = X[
                    (by * rows + i) // 2, (bx * columns + j) // 2
                ]
    return Y


@tileprof.jit
def edges_of_rows(X, part: int = 384):
    """Differences of neighbours, straight from global memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N - 1), T.float32)
    with T.Kernel(T.ceildiv(N - 1, part), M, threads=128) as (b, m):
        for j in T.Parallel(part):
            if b * part + j < N - 1:
                Y[m, b * part + j] = X[m, b * part + j + 1] - X[m, b * part + j]
    return Y


@tileprof.jit
def norms_of_rows(X, rows: int = 4):
    """Lengths of rows of 200 bfloat16."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        squares = T.alloc_fragment((rows, N), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.copy(X[b * rows, 0], squares)
        for i, j in T.Parallel(rows, N):
            squares[i, j] *= squares[i, j]
        T.reduce_sum(squares, total, dim=1)
        for i in T.Parallel(rows):
            if b * rows + i < M:
                Y[b * rows + i] = T.sqrt(total[i])
    return Y


@tileprof.jit
def columns_largest(X, columns: int = 64):
    """The largest number of each column of 50 rows of halves."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, columns), threads=128) as b:
        held = T.alloc_fragment((M, columns), T.float16)
        top = T.alloc_fragment((columns,), T.float16)
        T.copy(X[0, b * columns], held)
        T.reduce_max(held, top, dim=0)
        T.copy(top, Y[b * columns])
    return Y


@tileprof.jit
def counts_by_row(X, Counts, rows: int = 2):
    """Numbers below zero in each row, counted by atomics on global memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int32)
    Counts: T.Tensor((M,), T.int32)
    with T.Kernel(T.ceildiv(M, rows), threads=64) as b:
        for i, j in T.Parallel(rows, N):
            if b * rows + i < M and X[b * rows + i, j] < 0:
                T.atomic_add(Counts[b * rows + i], 1)


@tileprof.jit
def bytes_across(X, tile: int = 32):
    """A transpose of bytes through shared memory with padding."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.uint8)
    Y = T.empty((N, M), T.uint8)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        held = T.alloc_shared((tile, tile + 4), T.uint8)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < M and bx * tile + j < N:
                held[i, j] = X[by * tile + i, bx * tile + j]
        for i, j in T.Parallel(tile, tile):
            if bx * tile + i < N and by * tile + j < M:
                Y[bx * tile + i, by * tile + j] = held[j, i]
    return Y


@tileprof.jit
def pairs_swapped(X, part: int = 512):
    """Neighbours exchanged: each even element with the odd one behind it."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        for j in T.Parallel(part):
            at = b * part + j
            if at < N:
                Y[at] = X[at + 1 - at % 2 * 2]
    return Y


@tileprof.jit
def upper_parts_kept(X, tile: int = 32):
    """Numbers on and above the diagonal; tiles below it are only cleared."""
    N = T.const("N")
    X: T.Tensor((N, N), T.float32)
    Y = T.empty((N, N), T.float32)
    with T.Kernel(N // tile, N // tile, threads=128) as (bx, by):
        held = T.alloc_fragment((tile, tile), T.float32)
        T.clear(held)
        if bx >= by:
            for i, j in T.Parallel(tile, tile):
                if bx * tile + j >= by * tile + i:
                    held[i, j] = X[by * tile + i, bx * tile + j]
        T.copy(held, Y[by * tile, bx * tile])
    return Y


@tileprof.jit
def matrix_by_vector(A, X, rows: int = 8, part: int = 128):
    """A matrix of bfloat16 by a vector, in parts of its rows."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.bfloat16)
    X: T.Tensor((N,), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        held = T.alloc_fragment((rows, part), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.clear(held)
        for k in T.serial(T.ceildiv(N, part)):
            for i, j in T.Parallel(rows, part):
                if b * rows + i < M and k * part + j < N:
                    held[i, j] += A[b * rows + i, k * part + j] * X[k * part + j]
        T.reduce_sum(held, total, dim=1)
        for i in T.Parallel(rows):
            if b * rows + i < M:
                Y[b * rows + i] = total[i]
    return Y


@tileprof.jit
def sums_of_two_products(A, B, C, D, tile: int = 64, depth: int = 32):
    """Two products added up in the same registers, of halves, the second one transposed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, K), T.float16)
    D: T.Tensor((N, K), T.float16)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        c = T.alloc_shared((tile, depth), T.float16)
        d = T.alloc_shared((tile, depth), T.float16)
        y = T.alloc_fragment((tile, tile), T.float32)
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.copy(C[by * tile, k * depth], c)
            T.copy(D[bx * tile, k * depth], d)
            T.gemm(a, b, y)
            T.gemm(c, d, y, transpose_B=True)
        T.copy(y, Y[by * tile, bx * tile])
    return Y


@tileprof.jit
def product_of_images(X, W, tile: int = 64, depth: int = 64):
    """Pixels of batches by weights: three axes, 72 channels."""
    B, P, C, F = T.const("B, P, C, F")
    X: T.Tensor((B, P, C), T.bfloat16)
    W: T.Tensor((C, F), T.bfloat16)
    Y = T.empty((B, P, F), T.bfloat16)
    with T.Kernel(T.ceildiv(F, tile), T.ceildiv(P, tile), B, threads=128) as (bx, by, bz):
        x = T.alloc_shared((tile, depth), T.bfloat16)
        w = T.alloc_shared((depth, tile), T.bfloat16)
        y = T.alloc_fragment((tile, tile), T.float32)
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(C, depth), num_stages=2):
            T.copy(X[bz, by * tile : (by + 1) * tile, k * depth : (k + 1) * depth], x)
            T.copy(W[k * depth, bx * tile], w)
            T.gemm(x, w, y)
        T.copy(y, Y[bz, by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile])
    return Y


@tileprof.jit
def eighths_multiplied(A, B, tile: int = 64, depth: int = 64):
    """A product of 8-bit floats of two bits' fractions, rows of 96 bytes."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e5m2)
    B: T.Tensor((N, K), T.float8_e5m2)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float8_e5m2)
        b = T.alloc_shared((tile, depth), T.float8_e5m2)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def squared_distances(X, Y, tile: int = 32, depth: int = 32):
    """Squared distances of float32 rows, by registers of both tiles."""
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.float32)
    Y: T.Tensor((N, K), T.float32)
    D = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        x = T.alloc_shared((tile, depth), T.float32)
        y = T.alloc_shared((tile, depth), T.float32)
        d = T.alloc_fragment((tile, tile), T.float32)
        T.clear(d)
        for k in T.serial(K // depth):
            T.copy(X[by * tile, k * depth], x)
            T.copy(Y[bx * tile, k * depth], y)
            for s in T.serial(depth):
                for i, j in T.Parallel(tile, tile):
                    d[i, j] += (x[i, s] - y[j, s]) * (x[i, s] - y[j, s])
        T.copy(d, D[by * tile, bx * tile])
    return D


def _counted(draw):
    return [draw.integers(-9, 9, (21, 300), np.int32), np.zeros(21, np.int32)]


FROZEN_SEVENTH: tuple[Case, ...] = (
    Case(signs_split, drawn_as(((22, 150), np.float32)), "signs into two results"),
    Case(whole_numbers_chosen, drawn_as(((4_096,), np.int16, -99, 99), ((4_096,), np.int16, 0, 9),
                                        ((4_096,), np.uint8, 0, 2)), "one of two rows by a mask"),
    Case(rows_shifted_and_scaled, drawn_as(((37, 320), np.float16), ((37,), np.float32),
                                           ((37,), np.float32)), "shift and scale of rows"),
    Case(columns_offset, drawn_as(((50, 208), _E5M2), ((208,), np.float32)), "offsets of columns"),
    Case(doubles_in_steps, drawn_as(((2_000,), np.float64)), "every third double"),
    Case(long_words_reversed, drawn_as(((5, 500), np.int64, -99, 99)), "rows of 64 bits reversed"),
    Case(three_planes, drawn_as(((1_003, 3), np.uint8, 0, 256)), "planes of pixels"),
    Case(doubled_pixels, drawn_as(((21, 45), _BF16)), "pixels doubled, cut"),
    Case(edges_of_rows, drawn_as(((11, 1_001), np.float32)), "differences of neighbours"),
    Case(norms_of_rows, drawn_as(((45, 200), _BF16)), "lengths of rows"),
    Case(columns_largest, drawn_as(((50, 152), np.float16)), "maxima of columns, cut"),
    Case(counts_by_row, _counted, "counts by atomics in global memory"),
    Case(bytes_across, drawn_as(((75, 100), np.uint8, 0, 256)), "transpose of bytes, padded"),
    Case(pairs_swapped, drawn_as(((4_002,), np.float32)), "neighbours exchanged"),
    Case(upper_parts_kept, drawn_as(((128, 128), np.float32)), "upper triangle"),
    Case(matrix_by_vector, drawn_as(((50, 300), _BF16), ((300,), np.float32)),
         "matrix by vector, cut"),
    Case(sums_of_two_products,
         drawn_as(((70, 96), np.float16), ((96, 72), np.float16), ((70, 96), np.float16),
                  ((72, 96), np.float16)), "two products added, cut"),
    Case(product_of_images, drawn_as(((2, 100, 72), _BF16), ((72, 136), _BF16)),
         "product of three axes, cut"),
    Case(eighths_multiplied, drawn_as(((70, 96), _E5M2), ((90, 96), _E5M2)),
         "product of 8-bit floats, cut"),
    Case(squared_distances, drawn_as(((45, 64), np.float32), ((70, 64), np.float32)),
         "squared distances"),
)  # fmt: skip
