# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels whose blocks take a known time at their steps."""

import tileprof.lang as T
from tileprof import jit


@jit
def delays(blocks: T.int32, first: T.int32, second: T.int32, Y):
    """So many dependent steps in one scope, so many in the other."""
    N = T.const("N")
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(blocks, threads=32) as bx:
        x = T.alloc_local((1,), T.float32)
        x[0] = 1.0
        with T.scope("short"):
            for _ in T.serial(first):
                x[0] = x[0] * 0.999 + 0.5
        with T.scope("long"):
            for _ in T.serial(second):
                x[0] = x[0] * 0.999 + 0.5
        Y[bx] = x[0]


@jit
def lopsided(steps: T.int32, Y):
    """All of the work is the first block's."""
    N = T.const("N")
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(N, threads=32) as bx:
        x = T.alloc_local((1,), T.float32)
        x[0] = 1.0
        with T.scope("work"):
            for _ in T.serial(T.if_then_else(bx == 0, steps, 0)):
                x[0] = x[0] * 0.999 + 0.5
        Y[bx] = x[0]


@jit
def softmax(X):
    """Loop and copy are one, and before it there are steps of their own."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as bx:
        row = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[bx, 0], row)
        with T.scope("sum"):
            T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(1, N):
            row[i, j] = T.exp(row[i, j]) / total[i]
        T.copy(row, Y[bx, 0])
    return Y


@jit
def twice(X):
    """What is made is copied in the middle of a loop."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(1, threads=128):
        row = T.alloc_fragment((1, N), T.float32)
        for k in T.serial(M):
            T.copy(X[k, 0], row)
            for i, j in T.Parallel(1, N):
                row[i, j] = row[i, j] * 2
            T.copy(row, Y[k, 0])
    return Y


@jit
def elements(X):
    """A loop over elements, and one with scopes."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    Z = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.serial(N):
            Y[i] = X[i] * 2
            Z[i] = X[i] * 3
        for j in T.serial(N):
            with T.scope("first"):
                Y[j] = Y[j] + 1
            with T.scope("second"):
                Z[j] = Z[j] + 1
    return Y, Z


@jit
def guarded(steps: T.int32, Y):
    """Arithmetic of one block's own, in a branch."""
    N = T.const("N")
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(N, threads=32) as bx:
        x = T.alloc_local((1,), T.float32)
        x[0] = 1.0
        if bx == 0:
            with T.scope("work"):
                for i in T.serial(steps):
                    x[0] = x[0] * 0.999 + T.cast(i, T.float32)
        Y[bx] = x[0]
