"""An eighth set of kernels whose pages were written down before a GPU ran them: branches, steps.

An H200 ran them on 2026-11-30 at 09:25 UTC for the first time: 169 of 199 numbers were exact
(docs/show.md).  Since then they are development kernels.
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

_BF16, _E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


@tileprof.jit
def one_of_four(A, B, C, D, Pick, part: int = 256):
    """One of four rows, by two bits of a byte, in branches of branches."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C: T.Tensor((N,), T.float32)
    D: T.Tensor((N,), T.float32)
    Pick: T.Tensor((N,), T.uint8)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=64) as b:
        for j in T.Parallel(part):
            at = b * part + j
            if at < N:
                if Pick[at] < 2:
                    if Pick[at] == 0:
                        Y[at] = A[at]
                    else:
                        Y[at] = B[at] + 1.0
                else:
                    if Pick[at] == 2:
                        Y[at] = C[at] * 2.0
                    else:
                        Y[at] = -D[at]
    return Y


@tileprof.jit
def under_two_masks(X, Rows, Columns, rows: int = 8, columns: int = 96):
    """Numbers of rows and columns that two masks keep, others are zero."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Rows: T.Tensor((M,), T.uint8)
    Columns: T.Tensor((N,), T.uint8)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(N // columns, T.ceildiv(M, rows), threads=96) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y = by * rows + i
            x = bx * columns + j
            if y < M:
                Y[y, x] = T.if_then_else(
                    T.And(Rows[y] != 0, Columns[x] != 0), X[y, x], T.cast(0.0, T.float16)
                )
    return Y


@tileprof.jit
def every_fourth_part(X, part: int = 128):
    """Sums of every fourth part of a row, which one block adds up with a step."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, 4, part), T.float32)
    with T.Kernel(4, M, threads=128) as (b, m):
        held = T.alloc_fragment((part,), T.float32)
        T.clear(held)
        for k in T.serial(0, N // part, 4):
            if (k + b) * part < N:
                for j in T.Parallel(part):
                    held[j] += X[m, (k + b) * part + j]
        T.copy(held, Y[m, b, 0])
    return Y


@tileprof.jit
def names_of_names(Table, First, Second, rows: int = 8):
    """Rows of a table by a list of places in another list."""
    V, L, M, N = T.const("V, L, M, N")
    Table: T.Tensor((V, N), T.bfloat16)
    First: T.Tensor((L,), T.int32)
    Second: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        for i, j in T.Parallel(rows, N):
            if b * rows + i < M:
                Y[b * rows + i, j] = T.cast(Table[First[Second[b * rows + i]], j], T.float32)
    return Y


@tileprof.jit
def doubles_off_by_one(X, part: int = 256):
    """Doubles moved by one place, in a scratch of shared memory with an odd offset."""
    N = T.const("N")
    X: T.Tensor((N,), T.float64)
    Y = T.empty((N,), T.float64)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        held = T.alloc_shared((part + 1,), T.float64)
        for j in T.Parallel(part):
            held[j + 1] = T.if_then_else(b * part + j < N, X[b * part + j], 0.0)
        held[0] = T.if_then_else(b > 0, X[T.max(b * part - 1, 0)], 0.0)
        for j in T.Parallel(part):
            if b * part + j < N:
                Y[b * part + j] = held[j]
    return Y


@tileprof.jit
def volumes_reduced(X, deep: int = 8):
    """The sum of each plane of a volume over both of its axes."""
    B, H, V = T.const("B, H, V")
    X: T.Tensor((B, H, V), T.float32)
    Y = T.empty((B,), T.float32)
    with T.Kernel(T.ceildiv(B, deep), threads=128) as b:
        held = T.alloc_fragment((deep, H, V), T.float32)
        rows = T.alloc_fragment((deep, H), T.float32)
        whole = T.alloc_fragment((deep,), T.float32)
        T.copy(X[b * deep, 0, 0], held)
        T.reduce_sum(held, rows, dim=2)
        T.reduce_sum(rows, whole, dim=1)
        for i in T.Parallel(deep):
            if b * deep + i < B:
                Y[b * deep + i] = whole[i]
    return Y


@tileprof.jit
def counts_and_extremes(X, Class, Counts, Low, High, part: int = 384):
    """Atomics of three kinds on global memory: how many, the least and the greatest of a class."""
    N, C = T.const("N, C")
    X: T.Tensor((N,), T.int32)
    Class: T.Tensor((N,), T.int32)
    Counts: T.Tensor((C,), T.int32)
    Low: T.Tensor((C,), T.int32)
    High: T.Tensor((C,), T.int32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        for j in T.Parallel(part):
            at = b * part + j
            if at < N:
                T.atomic_add(Counts[Class[at]], 1)
                T.atomic_min(Low[Class[at]], X[at])
                T.atomic_max(High[Class[at]], X[at])


@tileprof.jit
def nibbles_unpacked(P, Scale, rows: int = 4, columns: int = 128):
    """Two signed numbers of four bits from a byte, times a scale for each 32 of a row."""
    M, W = T.const("M, W")
    P: T.Tensor((M, W), T.uint8)
    Scale: T.Tensor((M, W // 16), T.float16)
    Y = T.empty((M, W * 2), T.float16)
    with T.Kernel(W * 2 // columns, T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y = by * rows + i
            x = bx * columns + j
            if y < M:
                bits = (T.cast(P[y, x // 2], T.int32) >> (x % 2 * 4)) & 15
                signed = (bits ^ 8) - 8
                Y[y, x] = T.cast(signed, T.float16) * Scale[y, x // 32]
    return Y


@tileprof.jit
def frames_around(X, rows: int = 8, columns: int = 64):
    """An image in a frame of zeros: tiles lie out of bounds on both sides."""
    H, V = T.const("H, V")
    X: T.Tensor((H, V), T.float32)
    Y = T.empty((H + 6, V + 10), T.float32)
    with T.Kernel(T.ceildiv(V + 10, columns), T.ceildiv(H + 6, rows), threads=128) as (bx, by):
        held = T.alloc_shared((rows, columns), T.float32)
        for i, j in T.Parallel(rows, columns):
            y = by * rows + i - 3
            x = bx * columns + j - 5
            inside = (y >= 0) and (y < H) and (x >= 0) and (x < V)
            held[i, j] = T.if_then_else(inside, X[T.max(y, 0), T.max(x, 0)], 0.0)
        for i, j in T.Parallel(rows, columns):
            if by * rows + i < H + 6 and bx * columns + j < V + 10:
                Y[by * rows + i, bx * columns + j] = held[i, j]
    return Y


@tileprof.jit
def means_of_ends(X, Length, part: int = 128):
    """Means of rows up to a length of their own, by loops of a length that is loaded."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Length: T.Tensor((M,), T.int32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as m:
        held = T.alloc_fragment((part,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(held)
        for k in T.serial(T.ceildiv(Length[m], part)):
            for j in T.Parallel(part):
                if k * part + j < Length[m]:
                    held[j] += X[m, k * part + j]
        T.reduce_sum(held, total, dim=0)
        Y[m] = total[0] / T.cast(Length[m], T.float32)
    return Y


@tileprof.jit
def bands_of_diagonals(X, part: int = 64):
    """A band of 5 diagonals of a matrix, as rows of 5."""
    N = T.const("N")
    X: T.Tensor((N, N), T.bfloat16)
    Y = T.empty((N, 5), T.bfloat16)
    with T.Kernel(T.ceildiv(N, part), threads=64) as b:
        for i, d in T.Parallel(part, 5):
            at = b * part + i
            if at < N:
                other = at + d - 2
                Y[at, d] = T.if_then_else(
                    (other >= 0) and (other < N),
                    X[at, T.min(T.max(other, 0), N - 1)],
                    T.cast(0.0, T.bfloat16),
                )
    return Y


@tileprof.jit
def halves_of_words(X, part: int = 320):
    """The lower and the upper 16 bits of words, in two rows."""
    N = T.const("N")
    X: T.Tensor((N,), T.uint32)
    Y = T.empty((2, N), T.uint16)
    with T.Kernel(T.ceildiv(N, part), threads=160) as b:
        for h, j in T.Parallel(2, part):
            if b * part + j < N:
                Y[h, b * part + j] = T.cast((X[b * part + j] >> (h * 16)) & 0xFFFF, T.uint16)
    return Y


@tileprof.jit
def ordered_by_pairs(X, part: int = 256):
    """One round of a sorting network: neighbours at a distance of 8 in order."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int32)
    Y = T.empty((M, N), T.int32)
    with T.Kernel(N // part, M, threads=64) as (b, m):
        held = T.alloc_shared((part,), T.int32)
        T.copy(X[m, b * part], held)
        for j in T.Parallel(part):
            if j % 16 < 8:
                Y[m, b * part + j] = T.min(held[j], held[j + 8])
            else:
                Y[m, b * part + j] = T.max(held[j - 8], held[j])
    return Y


@tileprof.jit
def rows_by_parity(X, Even, Odd, rows: int = 4, columns: int = 128):
    """Even rows plus one vector, odd ones times another; the loop goes over tiles with a step."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Even: T.Tensor((N,), T.float32)
    Odd: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(3, threads=128) as b:
        for k in T.serial(b, T.ceildiv(M, rows), 3):
            for i, j in T.Parallel(rows, columns):
                if k * rows + i < M:
                    if (k * rows + i) % 2 == 0:
                        Y[k * rows + i, j] = X[k * rows + i, j] + Even[j]
                    else:
                        Y[k * rows + i, j] = X[k * rows + i, j] * Odd[j]
    return Y


@tileprof.jit
def product_with_rests(A, B, Rest, tile: int = 64, depth: int = 32):
    """A product plus rows of another matrix, cut on all sides."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    Rest: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < M and bx * tile + j < N:
                c[i, j] += T.cast(Rest[by * tile + i, bx * tile + j], T.float32)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def pairs_of_clusters(A, B, tile: int = 64, depth: int = 32):
    """A product of 8-bit floats in clusters of two blocks, which load what both need once."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e4m3fn)
    B: T.Tensor((N, K), T.float8_e4m3fn)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, M // tile, threads=128, cluster_dims=(1, 2)) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float8_e4m3fn)
        b = T.alloc_shared((tile, depth), T.float8_e4m3fn)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


def _extremes(draw):
    return [draw.integers(-500, 500, 3_000, np.int32), draw.integers(0, 30, 3_000, np.int32),
            np.zeros(30, np.int32), np.full(30, 999, np.int32),
            np.full(30, -999, np.int32)]  # fmt: skip


FROZEN_EIGHTH: tuple[Case, ...] = (
    Case(one_of_four, drawn_as(*([((1_500,), np.float32)] * 4), ((1_500,), np.uint8, 0, 4)),
         "one of four rows by a mask, cut"),
    Case(under_two_masks, drawn_as(((45, 288), np.float16), ((45,), np.uint8, 0, 2),
                                   ((288,), np.uint8, 0, 2)), "masks of rows and columns"),
    Case(every_fourth_part, drawn_as(((7, 1_792), np.float32)), "parts of rows with a step"),
    Case(names_of_names, drawn_as(((60, 136), _BF16), ((90,), np.int32, 0, 60),
                                  ((53,), np.int32, 0, 90)), "rows by two lists"),
    Case(doubles_off_by_one, drawn_as(((1_900,), np.float64)), "doubles moved by one"),
    Case(volumes_reduced, drawn_as(((20, 12, 32), np.float32)), "sums over two axes"),
    Case(counts_and_extremes, _extremes, "three atomics of classes"),
    Case(nibbles_unpacked, drawn_as(((22, 192), np.uint8, 0, 256), ((22, 12), np.float16)),
         "numbers of four bits with scales"),
    Case(frames_around, drawn_as(((42, 150), np.float32)), "image in a frame"),
    Case(means_of_ends, drawn_as(((23, 500), np.float32), ((23,), np.int32, 1, 500)),
         "means of rows of several lengths"),
    Case(bands_of_diagonals, drawn_as(((150, 150), _BF16)), "five diagonals"),
    Case(halves_of_words, drawn_as(((2_003,), np.uint32, 0, 1 << 32)), "words as two halves"),
    Case(ordered_by_pairs, drawn_as(((5, 768), np.int32, -999, 999)), "round of a sort"),
    Case(rows_by_parity, drawn_as(((50, 128), np.float32), ((128,), np.float32),
                                  ((128,), np.float32)), "even and odd rows, in steps"),
    Case(product_with_rests, drawn_as(((70, 80), np.float16), ((80, 104), np.float16),
                                      ((70, 104), np.float16)), "product plus a matrix, cut"),
    Case(pairs_of_clusters, drawn_as(((256, 160), _E4M3), ((128, 160), _E4M3)),
         "product of 8-bit floats in clusters"),
)  # fmt: skip
