# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels written for single threads, in whose texts `check_in_block` plants faults."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def rows_of_threads(A, x, block: int = 4, parts: int = 64, width: int = 4):
    """A matrix times a vector: several threads share a row and combine their sums."""
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
        for k in T.serial(T.ceildiv(K, parts * width)):
            for v in T.vectorized(width):
                at = k * parts * width + tk * width + v
                part[0] += A[bn * block + tn, at] * x[at]
        with T.attr(T.comm_reducer(lambda a, b: a + b, [T.cast(0, T.float32)]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(1, part[0], True, total[0], tk))
        if tk == 0:
            y[bn * block + tn] = total[0]
    return y


@tileprof.jit
def neighbours_of_threads(A, steps: int = 3):
    """Each thread averages with its neighbours, a few times, through two rows of shared memory."""
    N = T.const("N")
    A: T.Tensor((N, 128), T.float32)
    B = T.empty((N, 128), T.float32)
    with T.Kernel(N, threads=128) as bx:
        tx = T.get_thread_binding(0)
        rows = T.alloc_shared((2, 128), T.float32)
        rows[0, tx] = A[bx, tx]
        T.sync_threads()
        for k in T.serial(steps):
            rows[(k + 1) % 2, tx] = 0.5 * rows[k % 2, tx] + 0.5 * rows[k % 2, (tx + 1) % 128]
            T.sync_threads()
        B[bx, tx] = rows[steps % 2, tx]
    return B


@tileprof.jit
def counted_by_threads(X, Counts, bins: int = 64):
    """A histogram in shared memory: cleared, counted atomically, added to the result."""
    N = T.const("N")
    X: T.Tensor((N, 256), T.int32)
    Counts: T.Tensor((bins,), T.int32)
    with T.Kernel(N, threads=256) as bx:
        tx = T.get_thread_binding(0)
        held = T.alloc_shared((bins,), T.int32)
        if tx < bins:
            held[tx] = 0
        T.sync_threads()
        T.atomic_add(held[X[bx, tx]], 1)
        T.sync_threads()
        if tx < bins:
            T.atomic_add(Counts[tx], held[tx])


@tileprof.jit
def roles_of_threads(A):
    """Half of the threads fill a tile, the other half uses it."""
    N = T.const("N")
    A: T.Tensor((N, 4, 64), T.float32)
    B = T.empty((N, 4, 64), T.float32)
    with T.Kernel(N, threads=128) as bx:
        tx = T.get_thread_binding(0)
        tile = T.alloc_shared((64,), T.float32)
        for k in T.serial(4):
            if tx < 64:
                tile[63 - tx] = A[bx, k, tx]
            T.sync_threads()
            if tx >= 64:
                B[bx, k, tx - 64] = tile[tx - 64]
            T.sync_threads()
    return B
