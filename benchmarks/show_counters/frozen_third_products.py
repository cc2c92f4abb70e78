"""Products of the third set of kernels with pages from before a run; see `frozen_third`."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.frozen_third import THIRD_ROWS
from benchmarks.show_counters.kernels import Case

_BF16 = ml_dtypes.bfloat16
_E4M3 = ml_dtypes.float8_e4m3fn


@tileprof.jit
def rows_cut(A, B, tile: int = 64, depth: int = 64):
    """A product of which the last tile of rows is cut, and nothing else."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((tile, depth), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def columns_cut(A, B, tile: int = 64, depth: int = 64):
    """A product of which the last tile of columns is cut, of rows of whole sectors."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), M // tile, threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def odd_pitch(A, B, tile: int = 64, depth: int = 48):
    """A product whose rows begin at odd multiples of 16 bytes, without a cut tile."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((tile, depth), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined((K - 8) // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def turned_left(A, B, tile: int = 32, depth: int = 32):
    """A transposed left side in float32, by threads' products."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((depth, tile), T.float32)
        b = T.alloc_shared((depth, tile), T.float32)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.serial(T.ceildiv(K, depth)):
            T.copy(A[k * depth, by * tile], a)
            T.copy(B[k * depth, bx * tile], b)
            for d in T.serial(depth):
                for i, j in T.Parallel(tile, tile):
                    c[i, j] += a[d, i] * b[d, j]
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def fp8_scaled(A, B, Left, Right, tile: int = 64, depth: int = 64):
    """A product of 8-bit floats with scales of rows and columns."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e4m3fn)
    B: T.Tensor((N, K), T.float8_e4m3fn)
    Left: T.Tensor((M,), T.float32)
    Right: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float8_e4m3fn)
        b = T.alloc_shared((tile, depth), T.float8_e4m3fn)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            C[by * tile + i, bx * tile + j] = c[i, j] * Left[by * tile + i] * Right[bx * tile + j]
    return C


@tileprof.jit
def bytes_with_bias(A, B, Bias, Scale, tile: int = 64, depth: int = 32):
    """Whole numbers of 8 bits multiplied, scaled, with a bias of each column; edges are cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    Bias: T.Tensor((N,), T.float32)
    Scale: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.int8)
        b = T.alloc_shared((tile, depth), T.int8)
        c = T.alloc_fragment((tile, tile), T.int32)
        T.clear(c)
        for k in T.serial(K // depth):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            n = bx * tile + j
            C[by * tile + i, n] = T.cast(c[i, j], T.float32) * Scale[n] + Bias[n]
    return C


@tileprof.jit
def experts_of_rows(X, At, W, rows: int = 64, depth: int = 32):
    """Rows that a list names, gathered into shared memory and multiplied."""
    V, K, M, N = T.const("V, K, M, N")
    X: T.Tensor((V, K), T.float16)
    At: T.Tensor((M,), T.int32)
    W: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(N // 64, T.ceildiv(M, rows), threads=128) as (bx, by):
        a = T.alloc_shared((rows, depth), T.float16)
        b = T.alloc_shared((depth, 64), T.float16)
        c = T.alloc_fragment((rows, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            for i, j in T.Parallel(rows, depth):
                a[i, j] = X[At[by * rows + i], k * depth + j]
            T.copy(W[k * depth, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * rows, bx * 64])
    return C


@tileprof.jit
def one_query(Q, K, V, Length, part: int = 64):
    """Attention of one query a head over keys up to a length that a list has, part by part."""
    H, L, D = T.const("H, L, D")
    Q: T.Tensor((H, D), T.float32)
    K: T.Tensor((H, L, D), T.float16)
    V: T.Tensor((H, L, D), T.float16)
    Length: T.Tensor((H,), T.int32)
    Y = T.empty((H, D), T.float32)
    with T.Kernel(H, threads=128) as h:
        products = T.alloc_fragment((part, D), T.float32)
        scores = T.alloc_fragment((part,), T.float32)
        weights = T.alloc_shared((part,), T.float32)
        whole = T.alloc_fragment((1,), T.float32)
        norm = T.alloc_fragment((1,), T.float32)
        made = T.alloc_fragment((D,), T.float32)
        sums = T.alloc_fragment((D,), T.float32)
        T.clear(norm)
        T.clear(sums)
        for p in T.serial(T.ceildiv(Length[h], part)):
            for i, d in T.Parallel(part, D):
                products[i, d] = Q[h, d] * T.cast(K[h, p * part + i, d], T.float32)
            T.reduce_sum(products, scores, dim=1)
            for i in T.Parallel(part):
                late = p * part + i >= Length[h]
                scores[i] = T.if_then_else(late, 0.0, T.exp(scores[i] * 0.02))
            T.reduce_sum(scores, whole)
            for i in T.Parallel(1):
                norm[i] += whole[i]
            T.copy(scores, weights)
            for i, d in T.Parallel(part, D):
                products[i, d] = weights[i] * T.cast(V[h, p * part + i, d], T.float32)
            T.reduce_sum(products, made, dim=0)
            for d in T.Parallel(D):
                sums[d] += made[d]
        for d in T.Parallel(D):
            Y[h, d] = sums[d] / norm[0]
    return Y


@tileprof.jit
def parts_added(A, B, C, tile: int = 64, depth: int = 32):
    """A product in two parts along K whose cut tiles are added to the result by threads."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), 2, threads=128) as (bx, by, part):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.serial(K // 2 // depth):
            T.copy(A[by * tile, part * (K // 2) + k * depth], a)
            T.copy(B[part * (K // 2) + k * depth, bx * tile], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < M and bx * tile + j < N:
                T.atomic_add(C[by * tile + i, bx * tile + j], c[i, j])


@tileprof.jit
def rows_by_themselves(X, tile: int = 64, depth: int = 64):
    """Products of all rows with each other, of one tile of shared memory with itself."""
    B, L, K = T.const("B, L, K")
    X: T.Tensor((B, L, K), T.float16)
    Y = T.empty((B, L, L), T.float16)
    with T.Kernel(B, threads=128) as b:
        x = T.alloc_shared((tile, depth), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.serial(K // depth):
            T.copy(X[b, 0:tile, k * depth : (k + 1) * depth], x)
            T.gemm(x, x, c, transpose_B=True)
        T.copy(c, Y[b, 0:tile, 0:tile])
    return Y


@tileprof.jit
def means_of_both(A, B, tile: int = 64):
    """A product of one step, from shared memory out again turned and cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, K), T.float16)
        b = T.alloc_shared((tile, K), T.float16)
        out = T.alloc_shared((tile, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        T.copy(A[by * tile, 0], a)
        T.copy(B[bx * tile, 0], b)
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, out)
        for i, j in T.Parallel(tile, tile):
            C[bx * tile + i, by * tile + j] = out[j, i] * 0.015625
    return C


FROZEN_THIRD: tuple[Case, ...] = (
    *THIRD_ROWS,
    Case(rows_cut, drawn_as(((150, 192), _BF16), ((128, 192), _BF16)), "product, rows cut"),
    Case(columns_cut, drawn_as(((128, 128), np.float16), ((128, 160), np.float16)),
         "product, columns cut"),
    Case(odd_pitch, drawn_as(((128, 152), _BF16), ((64, 152), _BF16)),
         "product of rows of 304 bytes"),
    Case(turned_left, drawn_as(((70, 100), np.float32), ((70, 72), np.float32)),
         "float32 product of threads, transposed"),
    Case(fp8_scaled, drawn_as(((128, 192), _E4M3), ((128, 192), _E4M3), ((128,), np.float32),
                              ((128,), np.float32)), "fp8 product with scales"),
    Case(bytes_with_bias, drawn_as(((100, 128), np.int8, -128, 128),
                                   ((136, 128), np.int8, -128, 128), ((136,), np.float32),
                                   ((136,), np.float32)), "int8 product with a bias, cut"),
    Case(experts_of_rows, drawn_as(((200, 96), np.float16), ((90,), np.int32, 0, 200),
                                   ((96, 128), np.float16)), "gathered rows multiplied"),
    Case(one_query, drawn_as(((6, 64), np.float32), ((6, 256, 64), np.float16),
                             ((6, 256, 64), np.float16), ((6,), np.int32, 1, 257)),
         "one query, loops as long as a list says"),
    Case(parts_added, drawn_as(((100, 128), _BF16), ((128, 72), _BF16), ((100, 72), np.float32)),
         "product in parts, cut atomics"),
    Case(rows_by_themselves, drawn_as(((5, 64, 128), np.float16)), "rows with each other"),
    Case(means_of_both, drawn_as(((80, 64), np.float16), ((100, 64), np.float16)),
         "product turned through shared memory, cut"),
)  # fmt: skip
