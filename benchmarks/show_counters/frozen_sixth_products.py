"""Products of the sixth set of kernels; see `frozen_sixth`."""

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


@tileprof.jit
def halves_by_two_warps(A, B, tile: int = 32, depth: int = 64):
    """A product by two warps, of rows of whole lines; rows of A and of B are cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=64) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((tile, depth), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def halves_of_half_lines(A, B, tile: int = 32, depth: int = 32):
    """A product by two warps, of tiles whose rows are half a line each; nothing is cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // tile, M // tile, threads=64) as (bx, by):
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
def rows_of_fifty(A, B, tile: int = 32, depth: int = 32):
    """A product of halves whose rows are 100 bytes, in copies of four bytes; everything is cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((tile, depth), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def bytes_in_eights(A, B, tile: int = 32, depth: int = 64):
    """A product of whole numbers of 8 bits whose rows are multiples of 8 bytes."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    C = T.empty((M, N), T.int32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=64) as (bx, by):
        a = T.alloc_shared((tile, depth), T.int8)
        b = T.alloc_shared((tile, depth), T.int8)
        c = T.alloc_fragment((tile, tile), T.int32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def doubles_in_a_row(A, B, tile: int = 16, depth: int = 16):
    """A product of doubles by two warps, whole tiles of rows of whole lines."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float64)
    B: T.Tensor((K, N), T.float64)
    C = T.empty((M, N), T.float64)
    with T.Kernel(N // tile, M // tile, threads=64) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float64)
        b = T.alloc_shared((depth, tile), T.float64)
        c = T.alloc_fragment((tile, tile), T.float64)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def shuffled_rows(X, At, W, rows: int = 64, depth: int = 64):
    """Rows in the order of a list, each once, gathered and multiplied."""
    M, K, N = T.const("M, K, N")
    X: T.Tensor((M, K), T.bfloat16)
    At: T.Tensor((M,), T.int32)
    W: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // 64, M // rows, threads=128) as (bx, by):
        a = T.alloc_shared((rows, depth), T.bfloat16)
        b = T.alloc_shared((depth, 64), T.bfloat16)
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
def every_second_patch(X, W, rows: int = 64, depth: int = 64):
    """A convolution, 3 × 3, at every second pixel, as a product of patches."""
    B, H, V, C, F = T.const("B, H, V, C, F")
    X: T.Tensor((B, H, V, C), T.bfloat16)
    W: T.Tensor((3, 3, C, F), T.bfloat16)
    Y = T.empty((B, (H - 1) // 2, (V - 1) // 2, F), T.bfloat16)
    with T.Kernel(T.ceildiv(F, 64), T.ceildiv(B * ((H - 1) // 2) * ((V - 1) // 2), rows),
                  threads=128) as (bx, by):  # fmt: skip
        x = T.alloc_shared((rows, depth), T.bfloat16)
        w = T.alloc_shared((depth, 64), T.bfloat16)
        y = T.alloc_fragment((rows, 64), T.float32)
        flat = T.view(W, (9 * C, F))
        out = T.view(Y, (B * ((H - 1) // 2) * ((V - 1) // 2), F))
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(9 * C, depth), num_stages=2):
            T.im2col(X, x, by, k, 3, 2, 1, 0)
            T.copy(flat[k * depth, bx * 64], w)
            T.gemm(x, w, y)
        T.copy(y, out[by * rows, bx * 64])
    return Y


@tileprof.jit
def parts_of_depth(A, B, C, tile: int = 64, depth: int = 32, parts: int = 3):
    """A product split along K into three parts, which blocks add to the result by atomics."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), parts, threads=128) as (bx, by, bz):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth // parts, num_stages=2):
            T.copy(A[by * tile, (bz * (K // depth // parts) + k) * depth], a)
            T.copy(B[(bz * (K // depth // parts) + k) * depth, bx * tile], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < M and bx * tile + j < N:
                T.atomic_add(C[by * tile + i, bx * tile + j], c[i, j])


@tileprof.jit
def biased_and_bent(X, W, Bias, tile: int = 64, depth: int = 64):
    """A product with a bias for each column and a leaky bend, results of 72 columns."""
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((K, N), T.bfloat16)
    Bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        x = T.alloc_shared((tile, depth), T.bfloat16)
        w = T.alloc_shared((depth, tile), T.bfloat16)
        y = T.alloc_fragment((tile, tile), T.float32)
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[by * tile, k * depth], x)
            T.copy(W[k * depth, bx * tile], w)
            T.gemm(x, w, y)
        for i, j in T.Parallel(tile, tile):
            if bx * tile + j < N:
                y[i, j] = T.max(y[i, j] + Bias[bx * tile + j], 0.01 * y[i, j])
        T.copy(y, Y[by * tile, bx * tile])
    return Y


@tileprof.jit
def columns_by_themselves(X, tile: int = 64, depth: int = 32):
    """Products of all pairs of columns of one matrix."""
    K, N = T.const("K, N")
    X: T.Tensor((K, N), T.float16)
    G = T.empty((N, N), T.float32)
    with T.Kernel(N // tile, N // tile, threads=128) as (bx, by):
        a = T.alloc_shared((depth, tile), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        g = T.alloc_fragment((tile, tile), T.float32)
        T.clear(g)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(X[k * depth, by * tile], a)
            T.copy(X[k * depth, bx * tile], b)
            T.gemm(a, b, g, transpose_A=True)
        T.copy(g, G[by * tile, bx * tile])
    return G


@tileprof.jit
def one_warp_a_tile(A, B, depth: int = 32):
    """A product of bfloat16 in tiles of 16 × 16, one warp each, loaded as it is needed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 16), T.ceildiv(M, 16), threads=32) as (bx, by):
        a = T.alloc_shared((16, depth), T.bfloat16)
        b = T.alloc_shared((depth, 16), T.bfloat16)
        c = T.alloc_fragment((16, 16), T.float32)
        T.clear(c)
        for k in T.serial(K // depth):
            T.copy(A[by * 16, k * depth], a)
            T.copy(B[k * depth, bx * 16], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 16, bx * 16])
    return C


@tileprof.jit
def scores_near_by(Q, K, near: int = 48, tile: int = 64):
    """Scores of queries and keys that are at most 48 apart, a softmax of each row of tiles."""
    H, L, D = T.const("H, L, D")
    Q: T.Tensor((H, L, D), T.float16)
    K: T.Tensor((H, L, D), T.float16)
    S = T.empty((H, L, tile), T.float16)
    with T.Kernel(T.ceildiv(L, tile), H, threads=128) as (b, h):
        q = T.alloc_shared((tile, D), T.float16)
        k = T.alloc_shared((tile, D), T.float16)
        s = T.alloc_fragment((tile, tile), T.float32)
        top = T.alloc_fragment((tile,), T.float32)
        total = T.alloc_fragment((tile,), T.float32)
        T.copy(Q[h, b * tile : (b + 1) * tile, 0:D], q)
        T.copy(K[h, b * tile : (b + 1) * tile, 0:D], k)
        T.clear(s)
        T.gemm(q, k, s, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            s[i, j] = T.if_then_else(T.abs(i - j) <= near, s[i, j], -T.infinity(T.float32))
        T.reduce_max(s, top, dim=1)
        for i, j in T.Parallel(tile, tile):
            s[i, j] = T.exp(s[i, j] - top[i])
        T.reduce_sum(s, total, dim=1)
        for i, j in T.Parallel(tile, tile):
            if b * tile + i < L:
                S[h, b * tile + i, j] = s[i, j] / total[i]
    return S


@tileprof.jit
def quarters_multiplied(A, W, Scale, tile: int = 64, depth: int = 64):
    """A product of bfloat16 by whole numbers of 8 bits, widened in shared memory, with scales."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.int8)
    Scale: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        w = T.alloc_shared((tile, depth), T.int8)
        wide = T.alloc_shared((tile, depth), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.serial(K // depth):
            T.copy(A[by * tile, k * depth], a)
            T.copy(W[bx * tile, k * depth], w)
            for i, j in T.Parallel(tile, depth):
                wide[i, j] = T.cast(w[i, j], T.float32)
            T.gemm(a, wide, c, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            if bx * tile + j < N:
                c[i, j] *= Scale[bx * tile + j]
        T.copy(c, C[by * tile, bx * tile])
    return C


def _shuffled(draw):
    pair = drawn_as(((128, 192), _BF16), ((192, 128), _BF16))(draw)
    return [pair[0], draw.permutation(128).astype(np.int32), pair[1]]


def _parts(draw):
    pair = drawn_as(((100, 288), np.float16), ((288, 72), np.float16))(draw)
    return [*pair, np.zeros((100, 72), np.float32)]


SIXTH_PRODUCTS: tuple[Case, ...] = (
    Case(halves_by_two_warps, drawn_as(((90, 192), np.float16), ((75, 192), np.float16)),
         "product by two warps, rows cut"),
    Case(halves_of_half_lines, drawn_as(((64, 192), _BF16), ((96, 192), _BF16)),
         "product of half lines, two warps"),
    Case(rows_of_fifty, drawn_as(((70, 50), np.float16), ((45, 50), np.float16)),
         "product of rows of 100 bytes, cut"),
    Case(bytes_in_eights, drawn_as(((50, 104), np.int8, -128, 128),
                                   ((40, 104), np.int8, -128, 128)), "int8 rows of 104 bytes"),
    Case(doubles_in_a_row, drawn_as(((48, 64), np.float64), ((64, 32), np.float64)),
         "product of doubles, whole tiles"),
    Case(shuffled_rows, _shuffled, "product of shuffled rows"),
    Case(every_second_patch, drawn_as(((2, 17, 13, 32), _BF16), ((3, 3, 32, 72), _BF16)),
         "convolution at every second pixel"),
    Case(parts_of_depth, _parts, "product split along K by atomics, cut"),
    Case(biased_and_bent, drawn_as(((130, 160), _BF16), ((160, 72), _BF16), ((72,), np.float32)),
         "product with a bias, cut"),
    Case(columns_by_themselves, drawn_as(((104, 128), np.float16)), "columns by themselves"),
    Case(one_warp_a_tile, drawn_as(((40, 96), _BF16), ((96, 56), _BF16)), "one warp a tile, cut"),
    Case(scores_near_by, drawn_as(((3, 150, 64), np.float16), ((3, 150, 64), np.float16)),
         "scores of near keys, cut"),
    Case(quarters_multiplied, drawn_as(((96, 128), _BF16), ((80, 128), np.int8, -128, 128),
                                       ((80,), np.float32)), "int8 weights widened, cut"),
)  # fmt: skip
