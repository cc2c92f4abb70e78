"""Kernels that `benchmarks.tuning` tunes, each with many arguments that a tuner may set.

Those of `gpu_kernels` have products; these are bounded by memory, and go through rows in chunks.
"""

import tileprof
import tileprof.lang as T


@tileprof.jit
def softmax(X, rows: int = 1, chunk: int = 2048, stages: int = 2, threads: int = 256):
    """Softmax of rows, in chunks: one pass for maximum and sum, one for the result."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, chunk), T.bfloat16)
        e = T.alloc_fragment((rows, chunk), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        last = T.alloc_fragment((rows,), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.fill(top, -1e30)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            for i, j in T.Parallel(rows, chunk):
                e[i, j] = T.if_then_else(k * chunk + j < N, T.cast(x[i, j], T.float32), -1e30)
            T.copy(top, last)
            T.reduce_max(e, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, chunk):
                e[i, j] = T.exp2((e[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(e, part, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * T.exp2((last[i] - top[i]) * 1.44269504) + part[i]
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            for i, j in T.Parallel(rows, chunk):
                e[i, j] = T.exp2((T.cast(x[i, j], T.float32) - top[i]) * 1.44269504) / total[i]
            T.copy(e, Y[bx * rows, k * chunk])
    return Y


@tileprof.jit
def rms_norm(X, W, rows: int = 1, chunk: int = 2048, stages: int = 2, threads: int = 256):
    """RMS normalisation of rows, in chunks."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N,), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, chunk), T.bfloat16)
        square = T.alloc_fragment((rows, chunk), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)
        T.clear(mean)
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            for i, j in T.Parallel(rows, chunk):
                square[i, j] = T.cast(x[i, j], T.float32) * T.cast(x[i, j], T.float32)
            T.reduce_sum(square, mean, dim=1, clear=False)
        for i in T.Parallel(rows):
            mean[i] = T.rsqrt(mean[i] / N + 1e-6)
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            for i, j in T.Parallel(rows, chunk):
                square[i, j] = (
                    T.cast(x[i, j], T.float32) * mean[i] * T.cast(W[k * chunk + j], T.float32)
                )
            T.copy(square, Y[bx * rows, k * chunk])
    return Y


@tileprof.jit
def row_sums(X, rows: int = 4, chunk: int = 1024, stages: int = 2, threads: int = 256):
    """Sums of rows, through shared memory in stages."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M,), T.float32)

    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_shared((rows, chunk), T.bfloat16)
        wide = T.alloc_fragment((rows, chunk), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            T.copy(x, wide)
            T.reduce_sum(wide, total, dim=1, clear=False)
        T.copy(total, Y[bx * rows])
    return Y


@tileprof.jit
def row_scan(X, rows: int = 4, chunk: int = 512, stages: int = 2, threads: int = 128):
    """Running sums of rows, chunk by chunk."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        x = T.alloc_fragment((rows, chunk), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        T.clear(before)
        for k in T.Pipelined(T.ceildiv(N, chunk), num_stages=stages):
            T.copy(X[bx * rows, k * chunk], x)
            T.reduce_sum(x, part, dim=1)
            T.cumsum(x, dim=1)
            for i, j in T.Parallel(rows, chunk):
                x[i, j] += before[i]
            T.copy(x, Y[bx * rows, k * chunk])
            for i in T.Parallel(rows):
                before[i] += part[i]
    return Y
