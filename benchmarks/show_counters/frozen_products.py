"""Products whose pages were frozen on 2026-11-28 and judged on 2026-11-29; see `frozen_rows`."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.frozen_rows import FROZEN_ROWS
from benchmarks.show_counters.kernels import Case

_BF16 = ml_dtypes.bfloat16


@tileprof.jit
def scaled_by_rows(A, B, Scale, tile: int = 64, depth: int = 32):
    """A product of which each row has a scale; edges are cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    Scale: T.Tensor((M,), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(tile, tile):
            C[by * tile + i, bx * tile + j] = c[i, j] * Scale[by * tile + i]
    return C


@tileprof.jit
def split_sums(A, B, C, tile: int = 64, depth: int = 64):
    """A product in three parts along K, each added to the result by atomics of threads."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), 3, threads=128) as (bx, by, part):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((tile, depth), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 3 // depth, num_stages=2):
            T.copy(A[by * tile, part * (K // 3) + k * depth], a)
            T.copy(B[bx * tile, part * (K // 3) + k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            T.atomic_add(C[by * tile + i, bx * tile + j], c[i, j])


@tileprof.jit
def bytes_multiplied(A, B, tile: int = 64, depth: int = 64):
    """A product of whole numbers of 8 bits, as whole numbers of 32."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    C = T.empty((M, N), T.int32)
    with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.int8)
        b = T.alloc_shared((tile, depth), T.int8)
        c = T.alloc_fragment((tile, tile), T.int32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def causal_scores(Q, K, tile: int = 64):
    """Scores of queries with keys, those of later keys masked; one head a block."""
    H, L, D = T.const("H, L, D")
    Q: T.Tensor((H, L, D), T.float16)
    K: T.Tensor((H, L, D), T.float16)
    S = T.empty((H, L, L), T.float16)
    with T.Kernel(T.ceildiv(L, tile), T.ceildiv(L, tile), H, threads=128) as (bx, by, h):
        q = T.alloc_shared((tile, D), T.float16)
        k = T.alloc_shared((tile, D), T.float16)
        s = T.alloc_fragment((tile, tile), T.float32)
        T.copy(Q[h, by * tile, 0], q)
        T.copy(K[h, bx * tile, 0], k)
        T.clear(s)
        T.gemm(q, k, s, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            s[i, j] = T.if_then_else(bx * tile + j <= by * tile + i, s[i, j] * 0.125, -1e4)
        for i, j in T.Parallel(tile, tile):
            S[h, by * tile + i, bx * tile + j] = s[i, j]
    return S


@tileprof.jit
def rounded_through_shared(A, B, tile: int = 64, depth: int = 32):
    """A product whose sums go to shared memory as bfloat16, and from there to a cut result."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        out = T.alloc_shared((tile, tile), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.serial(T.ceildiv(K, depth)):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, out)
        for i, j in T.Parallel(tile, tile):
            C[by * tile + i, bx * tile + j] = out[i, j]
    return C


@tileprof.jit
def vector_by_matrix(X, W, columns: int = 64):
    """A row times a matrix: each block sums some columns over all rows."""
    K, N = T.const("K, N")
    X: T.Tensor((K,), T.float32)
    W: T.Tensor((K, N), T.float16)
    Y = T.empty((N,), T.float32)
    with T.Kernel(N // columns, threads=128) as b:
        part = T.alloc_fragment((16, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)
        T.clear(part)
        for k in T.serial(K // 16):
            for i, j in T.Parallel(16, columns):
                w = T.cast(W[k * 16 + i, b * columns + j], T.float32)
                part[i, j] += w * X[k * 16 + i]
        T.reduce_sum(part, total, dim=0)
        for j in T.Parallel(columns):
            Y[b * columns + j] = total[j]
    return Y


FROZEN_SECOND: tuple[Case, ...] = (
    *FROZEN_ROWS,
    Case(scaled_by_rows, drawn_as(((150, 160), _BF16), ((160, 136), _BF16), ((150,), np.float32)),
         "product with scales of rows, cut edges"),
    Case(split_sums, drawn_as(((128, 576), np.float16), ((128, 576), np.float16),
                              ((128, 128), np.float32)), "product split along K, atomics"),
    Case(bytes_multiplied, drawn_as(((128, 256), np.int8, -128, 128),
                                    ((192, 256), np.int8, -128, 128)), "int8 product"),
    Case(causal_scores, drawn_as(((2, 192, 64), np.float16), ((2, 192, 64), np.float16)),
         "masked scores"),
    Case(rounded_through_shared, drawn_as(((100, 96), _BF16), ((96, 200), _BF16)),
         "product through shared memory to cut tiles"),
    Case(vector_by_matrix, drawn_as(((512,), np.float32), ((512, 256), np.float16)),
         "row by a matrix"),
)  # fmt: skip
