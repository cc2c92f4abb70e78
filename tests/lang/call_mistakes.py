"""Calls of kernels with one mistake each; what is said about it is a golden."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103, F821
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def plus(A, B, block: int = 4):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return C


@tileprof.jit
def products(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1) as _:
        for i, j in T.Parallel(M, N):
            C[i, j] = A[i, 0] * B[0, j]
    return C


@tileprof.jit
def unannotated_tensor(A):
    N = T.const("N")
    C = T.empty((N,), T.float32)
    with T.Kernel(N) as bx:
        C[bx] = A[bx]
    return C


@tileprof.jit
def tensor_of_no_parameter(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(N) as bx:
        A[bx] = B[bx]


ROW = np.ones(8, np.float32)
CALL_MISTAKES = {
    "none_for_a_tensor": lambda: plus(ROW, None),
    "list_for_a_tensor": lambda: plus(ROW, [1.0]),
    "one_argument_more": lambda: plus(ROW, ROW, 4, 5),
    "unknown_keyword": lambda: plus(ROW, ROW, blok=4),
    "extent_misspelt": lambda: plus.compile(n=8),
    "extent_negative": lambda: plus.compile(N=-8),
    "extent_text": lambda: plus.compile(N="8"),
    "extent_of_another_argument": lambda: products(ROW.reshape(2, 4), ROW.reshape(8, 1)),
    "extent_of_one_of_two": lambda: products(ROW.reshape(1, 8), ROW.reshape(1, 8)),
    "unannotated_tensor": lambda: unannotated_tensor(ROW),
    "tensor_of_no_parameter": lambda: tensor_of_no_parameter(ROW),
}
