# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels with several loads of one tile, and sums in memory, for the tests of both."""

import tileprof
import tileprof.lang as T

ROWS, WIDTH = 128, 64


@tileprof.jit
def two_loops(A, B, second: int = 2):
    """The products of the second loop count twice: it multiplies by twice the tile of A."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((WIDTH, K), T.bfloat16)
    C = T.empty((M, WIDTH), T.float32)
    with T.Kernel(1, M // ROWS, threads=256) as (_, by):
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((WIDTH, 64), T.bfloat16)
        c = T.alloc_fragment((ROWS, WIDTH), T.float32)
        twice = T.alloc_fragment((ROWS, 64), T.bfloat16)

        T.clear(c)
        for k in T.Pipelined(K // 64 - by, num_stages=2):
            T.copy(A[by * ROWS, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        for k in T.Pipelined(by, num_stages=second):
            T.copy(A[by * ROWS, (K // 64 - by + k) * 64], a)
            T.copy(B[0, (K // 64 - by + k) * 64], b)
            for i, j in T.Parallel(ROWS, 64):
                twice[i, j] = a[i, j] + a[i, j]
            T.gemm(twice, b, c, transpose_B=True)
        T.copy(c, C[by * ROWS, 0])
    return C


@tileprof.jit
def found_rows(A, B, Rows, first: bool = False):
    """Besides a product, rows of A that begin where the block computes."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((WIDTH, K), T.bfloat16)
    Rows: T.Tensor((1,), T.int32)
    C = T.empty((ROWS, WIDTH), T.float32)
    D = T.empty((ROWS, 64), T.bfloat16)
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((WIDTH, 64), T.bfloat16)
        d = T.alloc_shared((ROWS, 64), T.bfloat16)
        at = T.alloc_shared((1,), T.int32)
        c = T.alloc_fragment((ROWS, WIDTH), T.float32)

        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[0, 0])
        for i in T.Parallel(1):
            at[i] = Rows[i] * 8
        if first:
            if at[0] > 0:
                T.copy(A[16, 0], d)
                T.copy(d, D[0, 0])
        else:
            T.copy(A[at[0], 0], d)
            T.copy(d, D[0, 0])
    return C, D


@tileprof.jit
def split_product(
    A, B, C, turns: int = 2, kind: str = "add", dtype: str = "float32", through: str = ""
):
    """C joined with products of parts of K, each part by a block, in several rounds; `through`: the
    memory in which the author puts a product before, or how its elements are added one by one."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C: T.Tensor((M, N), dtype)
    with T.Kernel(T.ceildiv(M, ROWS), K // 64 // turns, threads=256) as (bx, part):
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((N, 64), T.bfloat16)
        c = T.alloc_fragment((ROWS, N), T.float32)
        for turn in T.Pipelined(turns, num_stages=2):
            k = (part * turns + turn) * 64
            T.copy(A[bx * ROWS, k], a)
            T.copy(B[0, k], b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            if through == "shared":
                staged = T.alloc_shared((ROWS, N), dtype)
                T.copy(c, staged)
                T.atomic_add(C[bx * ROWS, 0], staged)
            elif through == "elements":
                for i, j in T.Parallel(ROWS, N):
                    T.atomic_add(C[bx * ROWS + i, j], c[i, j])
            elif through == "doubled":
                for i, j in T.Parallel(ROWS, N):
                    T.atomic_add(C[bx * ROWS + i, j], c[i, j] * 2 - c[i, j])
            elif through == "turned":
                for i, j in T.Parallel(N, N):
                    T.atomic_add(C[bx * ROWS + j, i], c[i, j])
            elif kind == "add":
                T.atomic_add(C[bx * ROWS, 0], c)
            else:
                T.atomic_max(C[bx * ROWS, 0], c)


@tileprof.jit
def split_sums(A, B, C, stages: int = 2):
    """C plus the product, each part of K by a block, whose elements are added behind its loop."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, ROWS), 2, threads=256) as (bx, part):
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((N, 64), T.bfloat16)
        c = T.alloc_fragment((ROWS, N), T.float32)
        T.clear(c)
        for turn in T.Pipelined(K // 128, num_stages=stages):
            T.copy(A[bx * ROWS, part * (K // 2) + turn * 64], a)
            T.copy(B[0, part * (K // 2) + turn * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        for i, j in T.Parallel(ROWS, N):
            T.atomic_add(C[bx * ROWS + i, j], c[i, j])


@tileprof.jit
def tile_of_the_loop(X):
    """Sums of rows by a loop that allocates the tile that it loads."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M // 32, threads=32) as block:
        total = T.alloc_fragment((32,), T.float32)
        T.clear(total)
        for step in T.Pipelined(N // 16, num_stages=2):
            tile = T.alloc_shared((32, 16), T.float32)
            T.copy(X[block * 32, step * 16], tile)
            T.reduce_sum(tile, total, dim=1, clear=False)
        T.copy(total, Y[block * 32])
    return Y


@tileprof.jit
def of_groups(A, B, Ends):
    """Rows of A, of which each block finds the group in a loop, times the matrix of that group."""
    M, K, G = T.const("M, K, G")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((G, WIDTH, K), T.bfloat16)
    Ends: T.Tensor((G,), T.int32)
    C = T.empty((M, WIDTH), T.float32)
    with T.Kernel(M // ROWS, threads=256) as bx:
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((WIDTH, 64), T.bfloat16)
        c = T.alloc_fragment((ROWS, WIDTH), T.float32)
        group = T.alloc_var(T.int32)
        T.clear(c)
        group = 0
        for g in range(G):
            group = T.if_then_else(bx * ROWS >= Ends[g], g + 1, group)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[bx * ROWS, k * 64], a)
            T.copy(B[group, 0, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[bx * ROWS, 0])
    return C


@tileprof.jit
def walking(A, B, Steps, forward: bool = True):
    """The product of A's columns and B's in an order that a variable of the loop follows."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((WIDTH, K), T.bfloat16)
    Steps: T.Tensor((K // 64,), T.int32)
    C = T.empty((M, WIDTH), T.float32)
    with T.Kernel(M // ROWS, threads=256) as bx:
        a = T.alloc_shared((ROWS, 64), T.bfloat16)
        b = T.alloc_shared((WIDTH, 64), T.bfloat16)
        c = T.alloc_fragment((ROWS, WIDTH), T.float32)
        at = T.alloc_var(T.int32)
        T.clear(c)
        at = bx if forward else 0
        for k in T.Pipelined(K // 64, num_stages=3):
            T.copy(A[bx * ROWS, at * 64], a)
            T.copy(B[0, at * 64], b)
            T.gemm(a, b, c, transpose_B=True)
            if Steps[k] > 0:
                at = (at + Steps[k]) % (K // 64)
        T.copy(c, C[bx * ROWS, 0])
    return C
