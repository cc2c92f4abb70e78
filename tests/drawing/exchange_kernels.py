# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels whose threads exchange values."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def row_maxima(A):
    """All warps share a row, and all need its maximum."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=256) as bx:
        row = T.alloc_fragment((1, 1024), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        T.copy(A[bx, 0], row)
        T.reduce_max(row, most, dim=1)
        for i, j in T.Parallel(1, 1024):
            row[i, j] = row[i, j] - most[i]
        T.copy(row, B[bx, 0])
    return B


@tileprof.jit
def column_sums(A):
    """Warps share columns, and the first one stores the sums."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    S = T.empty((M // 64, N), T.float32)
    with T.Kernel(M // 64, threads=128) as bx:
        tile = T.alloc_fragment((64, 64), T.float32)
        sums = T.alloc_fragment((64,), T.float32)
        T.copy(A[bx * 64, 0], tile)
        T.reduce_sum(tile, sums, dim=0)
        T.copy(sums, S[bx, 0])
    return S


@tileprof.jit
def sums_after_a_loop(A):
    """Each thread adds up what it holds; lanes join their parts once, behind the loop."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    with T.Kernel(M // 64, threads=128) as bx:
        tile = T.alloc_fragment((64, 64), T.float32)
        sums = T.alloc_fragment((64,), T.float32)
        T.clear(sums)
        for k in T.serial(N // 64):
            T.copy(A[bx * 64, k * 64], tile)
            T.reduce_sum(tile, sums, dim=1, clear=False)
        T.copy(sums, S[bx * 64])
    return S


@tileprof.jit
def threads_of_a_row(A, x, block: int = 4, parts: int = 64):
    """Single threads combine what they hold of a row; one of them stores it."""
    N, K = T.const("N, K")
    A: T.Tensor((N, K), T.float32)
    x: T.Tensor((K,), T.float32)
    y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=(block, parts)) as bn:
        tn = T.get_thread_binding(0)
        tk = T.get_thread_binding(1)
        part = T.alloc_local((1,), T.float32)
        total = T.alloc_local((1,), T.float32)
        T.clear(part)
        for k in T.serial(K // parts):
            part[0] += A[bn * block + tn, k * parts + tk] * x[k * parts + tk]
        with T.attr(T.comm_reducer(lambda a, b: a + b, [T.cast(0, T.float32)]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(1, part[0], True, total[0], tk))
        if tk == 0:
            y[bn * block + tn] = total[0]
    return y


@tileprof.jit
def converted(A, B):
    """Sums and maxima of a product's accumulators become rows and columns of it."""
    M = T.const("M")
    A: T.Tensor((M, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    S = T.empty((M, 64), T.float16)
    with T.Kernel(M // 64, threads=128) as bx:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        t = T.alloc_fragment((64, 64), T.float32)
        v = T.alloc_fragment((64,), T.float32)
        w = T.alloc_fragment((64,), T.float32)
        T.copy(A[bx * 64, 0], a)
        T.copy(B, b)
        T.clear(t)
        T.gemm(a, b, t)
        T.reduce_sum(t, v, dim=1)
        T.reduce_max(t, w, dim=0)
        for i, j in T.Parallel(64, 64):
            t[i, j] = t[i, j] * v[i] + w[j] + v[j]
        T.copy(t, S[bx * 64, 0])
    return S


@tileprof.jit
def scanned(A, rows: int = 8, columns: int = 256, along: int = 1, reverse: bool = False):
    """Running sums of rows or columns in shared memory."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    S = T.empty((M, N), T.float32)
    with T.Kernel(M // rows, threads=128) as bx:
        tile = T.alloc_shared((rows, columns), T.float32)
        T.copy(A[bx * rows, 0], tile)
        T.cumsum(tile, dim=along, reverse=reverse)
        T.copy(tile, S[bx * rows, 0])
    return S
