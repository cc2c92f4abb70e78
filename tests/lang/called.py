"""Kernels for the tests of calls."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import tileprof
import tileprof.lang as T

FACTOR = 2


@tileprof.jit
def scale(A, alpha: T.float32, block: int = 4):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M) as (bx, by):
        for i in T.Parallel(block):
            at = bx * block + i
            if at < N:
                B[by, at] = A[by, at] * alpha * FACTOR
    return B


@tileprof.jit
def rows(A):
    m = T.dynamic("m")
    A: T.Tensor((m, 4), T.float32)
    with T.Kernel(m) as bx:
        for i in T.serial(4):
            A[bx, i] += bx


@tileprof.jit
def same_rows(A, B):
    m = T.dynamic("m")
    A: T.Tensor((m, 4), T.float32)
    B: T.Tensor((m,), T.int32)
    with T.Kernel(m) as bx:
        B[bx] = T.int32(A[bx, 0])


@tileprof.jit
def late_scalars(A, n, block=4):
    n: T.int32
    A: T.Tensor[[n], T.float32]
    with T.Kernel(n) as bx:
        A[bx] = n


@tileprof.jit
def unannotated(A, B):
    A: T.Tensor((4,), T.float32)
    with T.Kernel(1) as bx:
        A[bx] = 0


@tileprof.jit(out_idx=[1, -1], target="cuda", verbose=True, pass_configs={"fast": True})
def split(N, dtype="float32", shift=1):
    """Returns two outputs of four parameters."""

    @T.prim_func
    def main(
        A: T.Tensor((N,), dtype),
        low: T.Tensor((N // 2,), dtype),
        alpha: T.int32,
        high: T.Tensor((N // 2,), dtype),
    ):
        with T.Kernel(N // 2) as bx:
            low[bx] = A[bx] + alpha
            high[bx] = A[bx + N // 2] + shift

    return main


@T.prim_func
def doubled(A: T.Tensor((T.dyn["n"],), "int32"), B: T.Tensor((T.dyn["n"],), "int32")):
    with T.Kernel(A.shape[0]) as bx:
        B[bx] = A[bx] * 2


def make_power(exponent: int) -> Any:
    """A kernel that reads a name of the function around it."""

    @tileprof.jit
    def power(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(N) as bx:
            A[bx] = A[bx] ** exponent + later()

    return power


def later():
    """Defined after the kernel that calls it."""
    return 1


@tileprof.jit
def faulty(A):
    A: T.Tensor((4,), T.float32)
    with T.Kernel(1) as bx:
        for name in ["a", "b"]:
            A[bx] = {"a": 1.0}[name]


@tileprof.jit
def numpy_constants(A, table):
    A: T.Tensor((4,), T.float32)
    with T.Kernel(4) as bx:
        total = 0.0
        for value in table:
            total = total + value
        A[bx] = total * A[bx]


def scaled(has_scale: bool) -> Any:
    """A kernel that uses its second tensor or not."""

    n, stride = T.dynamic("n, stride")

    @T.prim_func
    def scaled(
        A: T.Tensor((n, 8), T.float32),
        S: T.StridedTensor((n, 4), (stride, 1), T.float32),
        B: T.Tensor((n, 8), T.float32),
    ):
        with T.Kernel(n, threads=32) as b:
            for i in T.Parallel(8):
                B[b, i] = A[b, i] * (S[b, i // 2] if has_scale else 2)

    return tileprof.compile(scaled)


def built(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32)) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + 1

    return tileprof.compile(main, out_idx=[1])
