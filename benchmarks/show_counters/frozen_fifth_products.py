"""Products of the fifth set of kernels with pages from before a run; see `frozen_fifth`."""

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
def columns_by_columns(X, Z, tile: int = 64, depth: int = 32):
    """Products of columns, both sides transposed, in a ring of four."""
    K, M, N = T.const("K, M, N")
    X: T.Tensor((K, M), T.bfloat16)
    Z: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        x = T.alloc_shared((depth, tile), T.bfloat16)
        z = T.alloc_shared((tile, depth), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(X[k * depth, by * tile], x)
            T.copy(Z[bx * tile, k * depth], z)
            T.gemm(x, z, c, transpose_A=True, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def batches(A, B, tile: int = 64, depth: int = 64):
    """A product of each of several matrices, with a grid of three axes; rows are cut."""
    S, M, N, K = T.const("S, M, N, K")
    A: T.Tensor((S, M, K), T.float16)
    B: T.Tensor((S, K, N), T.float16)
    C = T.empty((S, M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), S, threads=128) as (bx, by, s):
        a = T.alloc_shared((tile, depth), T.float16)
        b = T.alloc_shared((depth, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[s, by * tile : (by + 1) * tile, k * depth : (k + 1) * depth], a)
            T.copy(B[s, k * depth : (k + 1) * depth, bx * tile : (bx + 1) * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[s, by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile])
    return C


@tileprof.jit
def single_floats(A, B, tile_m: int = 128, tile_n: int = 32, depth: int = 32):
    """A product of float32 on tensor cores, results of 36 columns."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((N, K), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, tile_n), T.ceildiv(M, tile_m), threads=128) as (bx, by):
        a = T.alloc_shared((tile_m, depth), T.float32)
        b = T.alloc_shared((tile_n, depth), T.float32)
        c = T.alloc_fragment((tile_m, tile_n), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * tile_m, k * depth], a)
            T.copy(B[bx * tile_n, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile_m, bx * tile_n])
    return C


@tileprof.jit
def eighths_to_eighths(A, B, Scale, tile: int = 64, depth: int = 128):
    """A product of 8-bit floats, stored as 8-bit floats from shared memory; columns are cut."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e5m2)
    B: T.Tensor((N, K), T.float8_e5m2)
    Scale: T.Tensor((1,), T.float32)
    C = T.empty((M, N), T.float8_e4m3fn)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.float8_e5m2)
        b = T.alloc_shared((tile, depth), T.float8_e5m2)
        out = T.alloc_shared((tile, tile), T.float8_e4m3fn)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[bx * tile, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(tile, tile):
            out[i, j] = c[i, j] * Scale[0]
        T.copy(out, C[by * tile, bx * tile])
    return C


@tileprof.jit
def bytes_by_two_warps(A, B, tile_m: int = 32, tile_n: int = 32, depth: int = 32):
    """A product of whole numbers of 8 bits by two warps, B as it lies in rows of K."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    C = T.empty((M, N), T.int32)
    with T.Kernel(T.ceildiv(N, tile_n), T.ceildiv(M, tile_m), threads=64) as (bx, by):
        a = T.alloc_shared((tile_m, depth), T.int8)
        b = T.alloc_shared((tile_n, depth), T.int8)
        c = T.alloc_fragment((tile_m, tile_n), T.int32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * tile_m, k * depth], a)
            T.copy(B[bx * tile_n, k * depth], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile_m, bx * tile_n])
    return C


@tileprof.jit
def shared_by_clusters(A, B, tile: int = 64, depth: int = 64):
    """A product in clusters of two blocks, which load what both need once."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(N // tile, M // tile, threads=128, cluster_dims=(1, 2)) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[by * tile, k * depth], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def loads_by_a_role(A, B, tile: int = 64, slots: int = 3):
    """A product of which one group of warps loads and another one multiplies, with barriers."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=256) as (bx, by):
        a = T.alloc_shared((slots, tile, 64), T.float16)
        b = T.alloc_shared((slots, 64, tile), T.float16)
        c = T.alloc_fragment((tile, tile), T.float32)
        full, free = T.alloc_barrier([128] * slots), T.alloc_barrier([128] * slots)
        T.clear(c)
        for k in range(T.ceildiv(K, 64)):
            with T.ws(1):
                T.mbarrier_wait_parity(free[k % slots], k // slots % 2 ^ 1)
                T.tma_copy(A[by * tile, k * 64], a[k % slots, :, :], barrier=full[k % slots])
                T.tma_copy(B[k * 64, bx * tile], b[k % slots, :, :], barrier=full[k % slots])
                T.mbarrier_arrive(full[k % slots])
            with T.ws(0):
                T.mbarrier_wait_parity(full[k % slots], k // slots % 2)
                T.gemm(a[k % slots, :, :], b[k % slots, :, :], c)
                T.mbarrier_arrive(free[k % slots])
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def two_layers(X, W, V, rows: int = 64, width: int = 64):
    """A product, its positive part, and a second product of that; parts of the hidden layer."""
    M, D, H, N = T.const("M, D, H, N")
    X: T.Tensor((M, D), T.bfloat16)
    W: T.Tensor((D, H), T.bfloat16)
    V: T.Tensor((H, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        x = T.alloc_shared((rows, D), T.bfloat16)
        w = T.alloc_shared((D, width), T.bfloat16)
        v = T.alloc_shared((width, N), T.bfloat16)
        hidden = T.alloc_fragment((rows, width), T.float32)
        positive = T.alloc_fragment((rows, width), T.bfloat16)
        y = T.alloc_fragment((rows, N), T.float32)
        T.copy(X[b * rows, 0], x)
        T.clear(y)
        for k in T.Pipelined(H // width, num_stages=2):
            T.copy(W[0, k * width], w)
            T.copy(V[k * width, 0], v)
            T.clear(hidden)
            T.gemm(x, w, hidden)
            for i, j in T.Parallel(rows, width):
                positive[i, j] = T.max(hidden[i, j], 0.0)
            T.gemm(positive, v, y)
        T.copy(y, Y[b * rows, 0])
    return Y


@tileprof.jit
def added_to_named_rows(X, W, To, Weight, Y, rows: int = 32, depth: int = 32):
    """Rows of a product, each with a weight, added to the rows that a list names."""
    M, K, N, V = T.const("M, K, N, V")
    X: T.Tensor((M, K), T.float16)
    W: T.Tensor((K, N), T.float16)
    To: T.Tensor((M,), T.int32)
    Weight: T.Tensor((M,), T.float32)
    Y: T.Tensor((V, N), T.float32)
    with T.Kernel(T.ceildiv(N, 48), T.ceildiv(M, rows), threads=64) as (bx, by):
        x = T.alloc_shared((rows, depth), T.float16)
        w = T.alloc_shared((depth, 48), T.float16)
        c = T.alloc_fragment((rows, 48), T.float32)
        T.clear(c)
        for k in T.serial(K // depth):
            T.copy(X[by * rows, k * depth], x)
            T.copy(W[k * depth, bx * 48], w)
            T.gemm(x, w, c)
        for i, j in T.Parallel(rows, 48):
            if by * rows + i < M and bx * 48 + j < N:
                T.atomic_add(Y[To[by * rows + i], bx * 48 + j], c[i, j] * Weight[by * rows + i])


@tileprof.jit
def doubles_multiplied(A, B, tile: int = 32, depth: int = 16):
    """A product of doubles, the left side transposed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M), T.float64)
    B: T.Tensor((K, N), T.float64)
    C = T.empty((M, N), T.float64)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        a = T.alloc_shared((depth, tile), T.float64)
        b = T.alloc_shared((depth, tile), T.float64)
        c = T.alloc_fragment((tile, tile), T.float64)
        T.clear(c)
        for k in T.Pipelined(K // depth, num_stages=2):
            T.copy(A[k * depth, by * tile], a)
            T.copy(B[k * depth, bx * tile], b)
            T.gemm(a, b, c, transpose_A=True)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def tiles_of_a_list(A, B, First, Tiles, tile: int = 64, depth: int = 32):
    """A product of the tiles of a sparse matrix that lists name for each row of tiles."""
    E, R, N, K, L = T.const("E, R, N, K, L")
    A: T.Tensor((E, tile, depth), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    First: T.Tensor((R,), T.int32)
    Tiles: T.Tensor((L,), T.int32)
    C = T.empty(((R - 1) * tile, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, tile), R - 1, threads=128) as (bx, by):
        a = T.alloc_shared((tile, depth), T.bfloat16)
        b = T.alloc_shared((depth, tile), T.bfloat16)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(First[by + 1] - First[by], num_stages=2):
            T.copy(A[First[by] + k, 0:tile, 0:depth], a)
            T.copy(B[Tiles[First[by] + k] * depth, bx * tile], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * tile, bx * tile])
    return C


@tileprof.jit
def low_rank_added(X, A, B, Y, rows: int = 64, rank: int = 24):
    """A product by two thin matrices of rank 24, added to what is there."""
    M, D, N = T.const("M, D, N")
    X: T.Tensor((M, D), T.float16)
    A: T.Tensor((D, 24), T.float16)
    B: T.Tensor((24, N), T.float16)
    Y: T.Tensor((M, N), T.float16)
    Z = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 80), T.ceildiv(M, rows), threads=128) as (bx, by):
        x = T.alloc_shared((rows, 32), T.float16)
        a = T.alloc_shared((32, rank), T.float16)
        b = T.alloc_shared((32, 80), T.float16)
        thin = T.alloc_shared((rows, 32), T.float16)
        low = T.alloc_fragment((rows, rank), T.float32)
        z = T.alloc_fragment((rows, 80), T.float32)
        T.clear(low)
        for k in T.serial(D // 32):
            T.copy(X[by * rows, k * 32], x)
            T.copy(A[k * 32, 0], a)
            T.gemm(x, a, low)
        T.clear(thin)
        T.copy(low, thin[0:rows, 0:rank])
        T.copy(B[0:32, bx * 80 : bx * 80 + 80], b)
        T.copy(Y[by * rows, bx * 80], z)
        T.gemm(thin, b, z)
        T.copy(z, Z[by * rows, bx * 80])
    return Z


@tileprof.jit
def patches_multiplied(X, W, rows: int = 64, columns: int = 32, depth: int = 32):
    """A convolution, 3 × 3, with padding, as a product of patches."""
    B, H, V, C, F = T.const("B, H, V, C, F")
    X: T.Tensor((B, H, V, C), T.float16)
    W: T.Tensor((3, 3, C, F), T.float16)
    Y = T.empty((B, H, V, F), T.float16)
    with T.Kernel(T.ceildiv(F, columns), T.ceildiv(B * H * V, rows), threads=128) as (bx, by):
        x = T.alloc_shared((rows, depth), T.float16)
        w = T.alloc_shared((depth, columns), T.float16)
        y = T.alloc_fragment((rows, columns), T.float32)
        flat = T.view(W, (9 * C, F))
        out = T.view(Y, (B * H * V, F))
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(9 * C, depth), num_stages=2):
            T.im2col(X, x, by, k, 3, 1, 1, 1)
            T.copy(flat[k * depth, bx * columns], w)
            T.gemm(x, w, y)
        T.copy(y, out[by * rows, bx * columns])
    return Y


def _named_rows(draw):
    kinds = drawn_as(((90, 96), np.float16), ((96, 120), np.float16), ((90,), np.int32, 0, 20),
                     ((90,), np.float32))  # fmt: skip
    return [*kinds(draw), np.zeros((20, 120), np.float32)]


def _tiles(draw):
    first = np.array([0, 3, 3, 8, 10], np.int32)
    pair = drawn_as(((10, 64, 32), _BF16), ((256, 136), _BF16))(draw)
    return [*pair, first, draw.integers(0, 8, 10, np.int32)]


FIFTH_PRODUCTS: tuple[Case, ...] = (
    Case(columns_by_columns, drawn_as(((200, 136), _BF16), ((72, 200), _BF16)),
         "product with both sides transposed, cut"),
    Case(batches, drawn_as(((3, 75, 128), np.float16), ((3, 128, 136), np.float16)),
         "products of batches, cut"),
    Case(single_floats, drawn_as(((200, 72), np.float32), ((36, 72), np.float32)),
         "float32 product on tensor cores, cut"),
    Case(eighths_to_eighths, drawn_as(((128, 256), _E5M2), ((112, 256), _E5M2), ((1,), np.float32)),
         "8-bit floats in and out"),
    Case(bytes_by_two_warps, drawn_as(((100, 80), np.int8, -128, 128),
                                      ((72, 80), np.int8, -128, 128)), "int8 product, two warps"),
    Case(shared_by_clusters, drawn_as(((256, 192), _BF16), ((192, 128), _BF16)),
         "product in clusters"),
    Case(loads_by_a_role, drawn_as(((150, 256), np.float16), ((256, 72), np.float16)),
         "product by roles with barriers, cut"),
    Case(two_layers, drawn_as(((150, 64), _BF16), ((64, 192), _BF16), ((192, 96), _BF16)),
         "two products in a row"),
    Case(added_to_named_rows, _named_rows, "product added to named rows"),
    Case(doubles_multiplied, drawn_as(((64, 50), np.float64), ((64, 70), np.float64)),
         "product of doubles, cut"),
    Case(tiles_of_a_list, _tiles, "product of tiles that lists name"),
    Case(low_rank_added, drawn_as(((100, 128), np.float16), ((128, 24), np.float16),
                                  ((24, 160), np.float16), ((100, 160), np.float16)),
         "product of rank 24 added"),
    Case(patches_multiplied, drawn_as(((2, 9, 12, 16), np.float16), ((3, 3, 16, 40), np.float16)),
         "convolution as a product"),
)  # fmt: skip
