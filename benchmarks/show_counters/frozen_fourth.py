"""A fourth set of kernels whose pages were written down before a GPU ran them.

An H200 ran them on 2026-11-29 at 13:55 UTC for the first time: 225 of 228 numbers were exact.  The
three others were bytes that the copy engine stores for `odd_product`, counted without whole
sectors.  Since then they are development kernels.
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

_BF16 = ml_dtypes.bfloat16
_E4M3, _E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@tileprof.jit
def ragged_sums(Values, Columns, First, X, part: int = 128):
    """A sparse matrix by a vector: rows of different lengths, elements anywhere."""
    E, R, N = T.const("E, R, N")
    Values: T.Tensor((E,), T.float32)
    Columns: T.Tensor((E,), T.int32)
    First: T.Tensor((R,), T.int32)
    X: T.Tensor((N,), T.float32)
    Y = T.empty((R - 1,), T.float32)
    with T.Kernel(R - 1, threads=128) as r:
        products = T.alloc_fragment((part,), T.float32)
        whole = T.alloc_fragment((1,), T.float32)
        T.clear(products)
        for t in T.serial(T.ceildiv(First[r + 1] - First[r], part)):
            for j in T.Parallel(part):
                at = First[r] + t * part + j
                if at < First[r + 1]:
                    products[j] += Values[at] * X[Columns[at]]
        T.reduce_sum(products, whole)
        for i in T.Parallel(1):
            Y[r + i] = whole[i]
    return Y


@tileprof.jit
def padded_turn(X, tile: int = 32):
    """A transpose of halves through rows of 34 elements, sizes that no tile divides."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        held = T.alloc_shared((tile, tile + 2), T.float16)
        for i, j in T.Parallel(tile, tile):
            held[i, j] = X[by * tile + i, bx * tile + j]
        for i, j in T.Parallel(tile, tile):
            Y[bx * tile + i, by * tile + j] = held[j, i]
    return Y


@tileprof.jit
def ring_of_rows(X, part: int = 256):
    """Means of four rows that lie in a ring of shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        ring = T.alloc_shared((4, part), T.float32)
        T.clear(ring)
        for m in T.serial(M):
            for j in T.Parallel(part):
                ring[m % 4, j] = X[m, b * part + j]
            for j in T.Parallel(part):
                Y[m, b * part + j] = (ring[0, j] + ring[1, j] + ring[2, j] + ring[3, j]) * 0.25
    return Y


@tileprof.jit
def spread_of_rows(X):
    """Largest less smallest element of each row, over eight warps, taken from the row."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M, threads=256) as m:
        row = T.alloc_fragment((N,), T.float32)
        high = T.alloc_fragment((1,), T.float32)
        low = T.alloc_fragment((1,), T.float32)
        T.copy(X[m, 0:N], row)
        T.reduce_max(row, high)
        T.reduce_min(row, low)
        for j in T.Parallel(N):
            Y[m, j] = (row[j] - low[0]) / (high[0] - low[0] + 1e-6)
    return Y


@tileprof.jit
def groups_of_bytes(X, Scale, Zero, rows: int = 4):
    """Bytes less a zero point of their group of 32, by its scale."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int8)
    Scale: T.Tensor((M, N // 32), T.float16)
    Zero: T.Tensor((M, N // 32), T.int8)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        for i, j in T.Parallel(rows, N):
            m = b * rows + i
            apart = T.cast(X[m, j], T.float32) - T.cast(Zero[m, j // 32], T.float32)
            Y[m, j] = apart * T.cast(Scale[m, j // 32], T.float32)
    return Y


@tileprof.jit
def eighths_added(A, B, part: int = 1024):
    """8-bit floats of two kinds added."""
    N = T.const("N")
    A: T.Tensor((N,), T.float8_e4m3fn)
    B: T.Tensor((N,), T.float8_e5m2)
    Y = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, part), threads=64) as b:
        for j in T.Parallel(part):
            at = b * part + j
            if at < N:
                Y[at] = T.cast(A[at], T.float32) + T.cast(B[at], T.float32)
    return Y


@tileprof.jit
def edges_summed(X, From, To, Sums):
    """Features of the source of each edge added to those of its target, by atomics."""
    V, D, E = T.const("V, D, E")
    X: T.Tensor((V, D), T.float32)
    From: T.Tensor((E,), T.int32)
    To: T.Tensor((E,), T.int32)
    Sums: T.Tensor((V, D), T.float32)
    with T.Kernel(T.ceildiv(E, 8), threads=128) as b:
        for i, d in T.Parallel(8, D):
            if b * 8 + i < E:
                T.atomic_add(Sums[To[b * 8 + i], d], X[From[b * 8 + i], d])


@tileprof.jit
def running_sums(X, rows: int = 8):
    """Running sums of rows, backwards, in shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M // rows, threads=128) as b:
        held = T.alloc_shared((rows, N), T.float32)
        T.copy(X[b * rows, 0], held)
        T.cumsum(held, dim=1, reverse=True)
        T.copy(held, Y[b * rows, 0])
    return Y


@tileprof.jit
def cross_of_five(X, Mask, rows: int = 8, columns: int = 32):
    """A five-point stencil at the points that a mask of bytes names."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Mask: T.Tensor((M, N), T.uint8)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N - 2, columns), T.ceildiv(M - 2, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i + 1, bx * columns + j + 1
            if y < M - 1 and x < N - 1 and Mask[y, x] != 0:
                around = X[y - 1, x] + X[y + 1, x] + X[y, x - 1] + X[y, x + 1]
                Y[y, x] = around - 4.0 * X[y, x]
    return Y


@tileprof.jit
def odd_product(A, B, tile_m: int = 64, tile_n: int = 40, depth: int = 48):
    """A product in tiles of 64 × 40 × 48."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile_n), T.ceildiv(M, tile_m), threads=128) as (bx, by):
        a = T.alloc_shared((tile_m, depth), T.float16)
        b = T.alloc_shared((tile_n, depth), T.float16)
        c = T.alloc_fragment((tile_m, tile_n), T.float32)
        T.clear(c)
        for k in T.serial(T.ceildiv(K, depth)):
            T.copy(A[by * tile_m, k * depth], a)
            T.copy(B[bx * tile_n, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile_m, bx * tile_n])
    return C


@tileprof.jit
def few_rows(A, B, tile: int = 64, depth: int = 64):
    """Sixteen rows by a matrix, in two stages."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, threads=64) as bx:
        a = T.alloc_shared((16, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        c = T.alloc_fragment((16, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[0, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[0, bx * tile])
    return C


@tileprof.jit
def rows_repeated(X, At, W, rows: int = 64, depth: int = 64):
    """Rows of which many are named several times, gathered and multiplied."""
    V, K, M, N = T.const("V, K, M, N")
    X: T.Tensor((V, K), T.bfloat16)
    At: T.Tensor((M,), T.int32)
    W: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // 64, M // rows, threads=128) as (bx, by):
        a = T.alloc_shared((rows, depth), T.bfloat16)
        b = T.alloc_shared((64, depth), T.bfloat16)
        c = T.alloc_fragment((rows, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            for i, j in T.Parallel(rows, depth):
                a[i, j] = X[At[by * rows + i], k * depth + j]
            T.copy(W[bx * 64, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * rows, bx * 64])
    return C


@tileprof.jit
def ends_of_runs(X, part: int = 512):
    """Where a list has another number than the one before, and the one behind."""
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Y = T.empty((N,), T.uint8)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        for j in T.Parallel(part):
            at = b * part + j
            if at < N:
                begins = X[at] != X[T.max(at - 1, 0)]
                ends = X[at] != X[T.min(at + 1, N - 1)]
                Y[at] = T.if_then_else(begins, 1, 0) + T.if_then_else(ends, 2, 0)
    return Y


@tileprof.jit
def complex_products(A, B, rows: int = 4):
    """Complex numbers whose parts lie next to each other, multiplied by one of each row."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B: T.Tensor((M, 2), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        for i, j in T.Parallel(rows, N // 2):
            m = b * rows + i
            Y[m, 2 * j] = A[m, 2 * j] * B[m, 0] - A[m, 2 * j + 1] * B[m, 1]
            Y[m, 2 * j + 1] = A[m, 2 * j] * B[m, 1] + A[m, 2 * j + 1] * B[m, 0]
    return Y


@tileprof.jit
def columns_centred(X, columns: int = 24):
    """Columns less their means, summed along the first dimension over six warps."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(N // columns, threads=192) as b:
        held = T.alloc_fragment((M, columns), T.float32)
        sums = T.alloc_fragment((columns,), T.float32)
        T.copy(X[0:M, b * columns : (b + 1) * columns], held)
        T.reduce_sum(held, sums, dim=0)
        for i, j in T.Parallel(M, columns):
            Y[i, b * columns + j] = held[i, j] - sums[j] / M
    return Y


def _sparse(draw):
    lengths = draw.integers(0, 300, 20)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count = int(first[-1])
    values, x = draw.standard_normal(count, np.float32), draw.standard_normal(500, np.float32)
    return [values, draw.integers(0, 500, count, np.int32), first, x]


FROZEN_FOURTH: tuple[Case, ...] = (
    Case(ragged_sums, _sparse, "sparse rows by a vector"),
    Case(padded_turn, drawn_as(((75, 106), np.float16)), "transpose through padded rows of halves"),
    Case(ring_of_rows, drawn_as(((11, 600), np.float32)), "ring of four rows"),
    Case(spread_of_rows, drawn_as(((30, 1536), _BF16)), "largest and smallest over eight warps"),
    Case(groups_of_bytes, drawn_as(((50, 352), np.int8, -128, 128), ((50, 11), np.float16),
                                   ((50, 11), np.int8, -8, 8)), "bytes with zero points of groups"),
    Case(eighths_added, drawn_as(((5_000,), _E4M3), ((5_000,), _E5M2)), "8-bit floats added"),
    Case(edges_summed, drawn_as(((60, 48), np.float32), ((205,), np.int32, 0, 60),
                                ((205,), np.int32, 0, 60), ((60, 48), np.float32)),
         "sums of neighbours in a graph"),
    Case(running_sums, drawn_as(((48, 160), np.float32)), "running sums from the back"),
    Case(cross_of_five, drawn_as(((45, 90), np.float32), ((45, 90), np.uint8, 0, 2)),
         "masked stencil"),
    Case(odd_product, drawn_as(((150, 120), np.float16), ((100, 120), np.float16)),
         "product in odd tiles, all edges cut"),
    Case(few_rows, drawn_as(((16, 256), _BF16), ((256, 192), _BF16)), "sixteen rows"),
    Case(rows_repeated, drawn_as(((9, 128), _BF16), ((128,), np.int32, 0, 9), ((128, 128), _BF16)),
         "gather of repeated rows, multiplied"),
    Case(ends_of_runs, drawn_as(((5_003,), np.int32, 0, 3)), "ends of runs"),
    Case(complex_products, drawn_as(((30, 200), np.float32), ((30, 2), np.float32)),
         "complex numbers in pairs"),
    Case(columns_centred, drawn_as(((64, 120), np.float32)), "columns over six warps"),
)  # fmt: skip
