"""Kernels of the tests of the debug execution."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import tileprof
import tileprof.lang as T


@tileprof.jit
def shifted(A, n: T.int32):
    """A read with a negative index in a branch that is not taken."""
    m = T.dynamic("m")
    A: T.Tensor((m,), T.float16)
    B = T.empty((m,), T.float32)
    with T.Kernel(T.ceildiv(m, 8)) as bx:
        for i in T.Parallel(8):
            at = bx * 8 + i
            B[at] = T.if_then_else(at >= n, A[at - n], -1) * 3
            B[at] = B[at] if at > 0 else 7
    return B


@tileprof.jit
def mixed_types(A, H, C):
    """Each name has one type though its values come from branches of several."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    H: T.Tensor((N,), T.bfloat16)
    C: T.Tensor((N,), T.int8)
    B = T.empty((N,), T.float32)
    with T.Kernel(N) as bx:
        total = 0.0
        for i in T.serial(N):
            total = total + H[i]
        chosen = T.if_then_else(bx % 2 == 0, H[bx], A[bx])
        wrapped = C[bx] + C[bx]
        down = -C[bx] // 3 * 10 + -C[bx] % 3
        eighth = T.cast(H[bx], T.float8_e4m3) * H[bx] + T.exp(H[bx])
        B[bx] = total + chosen * chosen + wrapped * 0.5 + down + eighth
    return B


@tileprof.jit
def two_launches(A, scale: T.float32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    sums = T.empty((M,), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=32) as bx:
        row = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(A[bx, 0], row)
        T.reduce_sum(row, total, dim=1)
        T.copy(total, sums[bx])
    with T.Kernel(M, T.ceildiv(N, 4)) as (bx, by):
        for i in T.Parallel(4):
            B[bx, by * 4 + i] = A[bx, by * 4 + i] / sums[bx] * scale
    return B, sums


@tileprof.jit
def in_place(A):
    n = T.dynamic("n")
    A: T.Tensor((n,), T.int32)
    with T.Kernel(T.ceildiv(n, 4)) as bx:
        for i in T.Parallel(4):
            A[bx * 4 + i] += bx


@T.macro
def add_to(x: T.Ref, value):
    x = x + value


@tileprof.jit
def references(A, steps):
    A: T.Tensor((8,), T.int32)
    steps: T.Tensor((8,), T.int32)
    before = T.empty((8,), T.int32)
    with T.Kernel(8) as bx:
        count = T.alloc_var("int32", 0)
        for i in T.serial(bx):
            add_to(count, steps[i])
        before[bx] = T.atomic_add(A[bx], count, return_prev=True)
    return before


@tileprof.jit
def bits(A):
    A: T.Tensor((4, 8), T.float32)
    B = T.empty((4, 8), T.int32)
    C = T.empty((4, 2), T.int16)
    with T.Kernel(4) as bx:
        row = T.alloc_shared((8,), T.float32)
        T.copy(A[bx, 0], row)
        words = T.view(row, (8,), T.int32)
        halves = T.view(row, (16,), T.int16)
        for i in T.Parallel(8):
            B[bx, i] = words[i] & 0xFF0000
        for i in T.Parallel(2):
            C[bx, i] = halves[2 * i + 1]
    return B, C


@tileprof.jit
def private(A):
    """A variable from outside is private to each point of a `T.Parallel`."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1):
        x = T.alloc_var("int32", 5)
        for i in T.Parallel(8):
            x = x + i
            A[i] = x


@tileprof.jit
def safe_values(A):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    B = T.empty((1,), T.float32)
    T.annotate_safe_value({A: -5.0})
    with T.Kernel(1):
        tile = T.alloc_shared((8,), T.float32)
        least = T.alloc_fragment((1,), T.float32)
        T.copy(A[0], tile)
        T.reduce_min(tile, least, dim=0)
        T.copy(least, B)
        return B


@tileprof.jit
def late_extents(A, B):
    """`K` is known from the second annotation on."""
    K = T.const("K")
    A: T.Tensor((K // 2,), T.float32)
    B: T.Tensor((K,), T.float32)
    with T.Kernel(K // 2) as bx:
        B[2 * bx] = A[bx]


@tileprof.jit(out_idx=[1])
def doubled_factory(rows, dtype="float32"):
    m = T.dynamic("m")

    @T.prim_func
    def doubled(A: T.Tensor((m, rows), dtype), B: T.Tensor((m * 2, rows), dtype)):
        with T.Kernel(m) as bx:
            tile = T.alloc_shared((1, rows), dtype)
            T.copy(A[bx : bx + 1, :], tile)
            T.copy(tile, B[2 * bx, 0])
            T.copy(tile, B[2 * bx + 1, 0])

    return doubled


@tileprof.jit
def strided(A):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((N, M), T.float32)
    with T.Kernel(M) as bx:
        for i in T.Parallel(N):
            B[i, bx] = A[bx, i]
    return B


@tileprof.jit
def printing(A):
    A: T.Tensor((4,), T.int32)
    print("in the function")
    with T.Kernel(2) as bx:
        tile = T.alloc_shared((2,), T.int32)
        T.copy(A[bx * 2], tile)
        T.print(tile, "tile")
        for i in T.serial(2):
            print("element", i, tile[i], f"{tile[i]:03d}", [10, 20][i])
            T.print(tile[i] + 1, "next")
        print(tile.numpy().sum(), tile[0:1])


def noting(seen: list[str]) -> tuple[Any, Any, Any]:
    """A factory, an eager kernel and a program that note what their indices are."""

    @tileprof.jit(out_idx=[1])
    def factory():
        @T.prim_func
        def main(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                for i in T.serial(4):
                    seen.append(type(i).__name__)
                    B[i] = A[i] + 1

        return main

    @tileprof.jit(debug=True)
    def eager(A):
        A: T.Tensor((4,), T.int32)
        with T.Kernel(1) as bx:
            seen.append(repr(bx))
            A[1] = A[0] * 2

    @T.prim_func
    def program(A: T.Tensor((4,), T.int32)):
        with T.Kernel(1) as bx:
            seen.append(repr(bx))
            A[0] = A[1] * 2

    return factory, eager, program
