"""Kernels that go wrong, for the tests of the debug execution."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T


@tileprof.jit
def outside_shared(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        tile = T.alloc_shared((4,), T.float32)
        T.copy(A[bx * 4], tile)
        for i in T.Parallel(4):
            A[bx * 4 + i] = tile[i + bx]


@tileprof.jit
def negative_index(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2, 2) as (_, _):
        for i in T.serial(4):
            A[i] = A[i - 1]


@tileprof.jit
def never_written(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        tile = T.alloc_fragment((4, 4), T.float32)
        for i in T.Parallel(4):
            tile[i, 0] = 1.0
        for i in T.Parallel(4):
            A[bx * 4 + i] = tile[i, bx]


@tileprof.jit
def variable_never_set(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        x = T.alloc_var("float32")
        if bx == 0:
            x = 1.0
        A[bx] = x + 1


@tileprof.jit
def variable_after_parallel(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1):
        x = T.alloc_var("float32", 0.0)
        for i in T.Parallel(4):
            x = x + 1
            A[i] = x
        A[7] = x


@tileprof.jit
def output_never_written(A):
    A: T.Tensor((8,), T.float32)
    B = T.empty((8,), T.float32)
    with T.Kernel(1):
        for i in T.Parallel(4):
            A[i] = B[i] + 1
    return B


@tileprof.jit
def assertion(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        for i in T.serial(4):
            T.device_assert(A[bx * 4 + i] < 6, "small")


@tileprof.jit
def shapes(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2):
        a = T.alloc_shared((4, 8), T.float32)
        c = T.alloc_fragment((4, 4), T.float32)
        T.gemm(a, a, c)


@T.macro
def two_further(tile, i):
    return tile[i + 2]


@tileprof.jit
def in_macro(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1):
        tile = T.alloc_shared((4,), T.float32)
        T.clear(tile)
        for i in T.serial(4):
            A[i] = two_further(tile, i)


@tileprof.jit
def tile_outside(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        tile = T.alloc_shared((8,), T.float32)
        T.clear(tile)
        T.copy(tile[bx * 4 + 1 : bx * 4 + 5], A[bx * 4])


@tileprof.jit
def zero_divisor(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        A[bx] = 7 // bx


@tileprof.jit
def two_blocks_write(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        A[0] = bx * 1.0


@tileprof.jit
def integer_division(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        A[bx] = (bx + 1) / 2


@tileprof.jit
def unknown_operation(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2):
        T.coppy(A, A)


@tileprof.jit
def endless(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1):
        while A[0] < 1:
            A[1] = 2


@tileprof.jit
def raises(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(2) as bx:
        helper(bx)


def helper(at):
    raise LookupError(f"block {at}")


@tileprof.jit
def tile_misses(A):
    A: T.Tensor((8,), T.float32)
    with T.Kernel(4) as bx:
        tile = T.alloc_shared((4,), T.float32)
        T.copy(A[bx * 4], tile)


@tileprof.jit
def elements_miss(A):
    A: T.Tensor((6,), T.float32)
    with T.Kernel(3) as bx:
        for i in T.Parallel(4):
            A[bx * 4 + i] = 1.0
