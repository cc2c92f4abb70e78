# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels for the tests on a GPU: each in one form, over types and shapes."""

import tileprof.lang as T
from tileprof import jit


@jit
def product(A, B, dtype, out, ta=False, tb=False, bm=64, bn=64, bk=64, stages=2, threads=128):
    """C = A · B, either operand transposed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if ta else (M, K), dtype)
    B: T.Tensor((N, K) if tb else (K, N), dtype)
    C = T.empty((M, N), out)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
        B_shared = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
        C_local = T.alloc_fragment((bm, bn), out)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
            if ta:
                T.copy(A[k * bk, by * bm], A_shared)
            else:
                T.copy(A[by * bm, k * bk], A_shared)
            if tb:
                T.copy(B[bx * bn, k * bk], B_shared)
            else:
                T.copy(B[k * bk, bx * bn], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_A=ta, transpose_B=tb)
        T.copy(C_local, C[by * bm, bx * bn])
    return C


@jit
def reduced(X, dtype, kind, dim, bm=16, bn=64):
    """The sum, maximum or minimum of each row (1) or column (0) of tiles that cover X."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((T.ceildiv(M, bm), T.ceildiv(N, bn), bm if dim else bn), dtype)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
        x = T.alloc_fragment((bm, bn), dtype)
        y = T.alloc_fragment((bm if dim else bn,), dtype)
        T.copy(X[by * bm, bx * bn], x)
        if kind == "sum":
            T.reduce_sum(x, y, dim=dim)
        elif kind == "max":
            T.reduce_max(x, y, dim=dim)
        else:
            T.reduce_min(x, y, dim=dim)
        for i in T.Parallel(bm if dim else bn):
            Y[by, bx, i] = y[i]
    return Y


@jit
def scanned(X, dtype, rows=4):
    """Running sums of rows."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_shared((rows, N), dtype)
        T.copy(X[bx * rows, 0], x)
        T.cumsum(x, dim=1)
        T.copy(x, Y[bx * rows, 0])
    return Y


@jit
def chained(A, B, C):
    """(A · B rounded to float8) · Cᵀ; the tile between stays in registers."""
    A: T.Tensor((64, 64), T.float8_e4m3)
    B: T.Tensor((64, 64), T.float8_e4m3)
    C: T.Tensor((64, 64), T.float8_e4m3)
    D = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float8_e4m3)
        b = T.alloc_shared((64, 64), T.float8_e4m3)
        c = T.alloc_shared((64, 64), T.float8_e4m3)
        first = T.alloc_fragment((64, 64), T.float32)
        middle = T.alloc_fragment((64, 64), T.float8_e4m3)
        last = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.copy(C, c)
        T.gemm(a, b, first, clear_accum=True)
        T.copy(first, middle)
        T.gemm(middle, c, last, transpose_B=True, clear_accum=True)
        T.copy(last, D)
    return D


@jit
def counted(X, H, dtype, block=256):
    """H[x] += 1 for each x."""
    N, bins = T.const("N, bins")
    X: T.Tensor((N,), T.int32)
    H: T.Tensor((bins,), dtype)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            if bx * block + i < N:
                T.atomic_add(H[X[bx * block + i]], T.cast(1, dtype))


@jit
def turned(X, dtype, block=32):
    """The transpose, through shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((N, M), dtype)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_shared((block, block), dtype)
        T.copy(X[by * block, bx * block], tile)
        for i, j in T.Parallel(block, block):
            Y[bx * block + i, by * block + j] = tile[j, i]
    return Y


@jit
def warned(X, Y, block=64):
    """Y = X; prints the first element of each block, and no element may be negative."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        T.print(X[bx * block])
        for i in T.Parallel(block):
            if bx * block + i < N:
                T.device_assert(X[bx * block + i] >= 0, "x is negative")
                Y[bx * block + i] = X[bx * block + i]


@jit
def picked(table, index):
    """Elements by an index, whose bounds are looked at where it runs."""
    v, n = T.const("v, n")
    table: T.Tensor((v,), T.float32)
    index: T.Tensor((n,), T.int32)
    out = T.empty((n,), T.float32)
    with T.Kernel(T.ceildiv(n, 128), threads=128) as block:
        for i in T.Parallel(128):
            out[block * 128 + i] = table[index[block * 128 + i]]
    return out


@jit
def added(A, B, R):
    """R + A · Bᵀ, R through shared memory, the result by stores of a few bytes each."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    R: T.Tensor((M, N), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 128, M // 128, threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), T.bfloat16)
        B_shared = T.alloc_shared((128, 64), T.bfloat16)
        R_shared = T.alloc_shared((128, 128), T.bfloat16)
        sums = T.alloc_fragment((128, 128), T.float32)
        T.copy(R[by * 128, bx * 128], R_shared)
        T.clear(sums)
        for k in T.Pipelined(K // 64, num_stages=4):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * 128, k * 64], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(128, 128):
            # Slow arithmetic: loads of R are spread over it.
            sums[i, j] = sums[i, j] / (1.0 + T.__exp2(T.float32(R_shared[i, j]) * 0.0)) * 2.0
            sums[i, j] += R_shared[i, j]
        for i, j in T.Parallel(128, 128):
            C[by * 128 + i, bx * 128 + j] = sums[i, j]
    return C
