# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels for the tests of launches."""

import tileprof.lang as T
from tileprof import jit


@jit
def scale(A, C, factor: T.float32, shift: T.int8, block=64):
    """C = A * factor, over blocks of columns and rows."""
    M, N = T.dynamic("M"), T.dynamic("N")
    A: T.Tensor((M, N), T.float16)
    C: T.Tensor((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), M, threads=128) as (bx, by):
        for i in T.Parallel(block):
            C[by, bx * block + i] = A[by, bx * block + i] * T.cast(factor, T.float16)


@jit
def add(A, B, C, block=64):
    """C = A + B."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


@jit
def double(A, block=64):
    """2 * A, in a new tensor."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] * 2
    return C


@jit
def padded(A, block=64):
    """A in a new tensor of whole blocks, whose extent follows from that of A."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    C = T.empty((T.ceildiv(N, block) * block,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i]
    return C


@jit
def scaled(A, factor: T.float32, number: T.int32, blocks: T.int32):
    """A = A * factor + number, by so many blocks."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(blocks, threads=64) as bx:
        for i in T.Parallel(8):
            A[bx * 8 + i] = A[bx * 8 + i] * factor + T.cast(number, T.float32)


GROUP = 32


@jit
def grouped(A):
    """A = A + 1, in blocks of GROUP."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, GROUP), threads=64) as bx:
        for i in T.Parallel(GROUP):
            A[bx * GROUP + i] = A[bx * GROUP + i] + 1


@jit
def sums(A, block=64):
    """The sum of each block of A."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    C = T.empty((T.ceildiv(N, block),), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        held = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(A[bx * block], held)
        T.reduce_sum(held, total)
        C[bx] = total[0]
    return C


@jit
def sums_in_scopes(A, block=64):
    """As `sums`, with a scope for each of its two steps."""
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    C = T.empty((T.ceildiv(N, block),), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        held = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        with T.scope("load"):
            T.copy(A[bx * block], held)
        with T.scope("sum"):
            T.reduce_sum(held, total)
            C[bx] = total[0]
    return C


@jit
def checked(A, block=64):
    """Stops where an element is 70 or more."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            T.device_assert(A[bx * block + i] < 70, "a < 70")
            A[bx * block + i] = 0


@jit
def spoken(A):
    """Prints every element, one a block."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(N, threads=64) as bx:
        T.print(A[bx], "x =")


@jit
def add_up(dC, A, block=64):
    """The sum of both as a new array."""
    N = T.const("N")
    dC: T.Tensor((N,), T.float32)
    A: T.Tensor((N,), T.float32)
    dA = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            dA[bx * block + i] = dC[bx * block + i] + A[bx * block + i]
    return dA


@jit
def words_of_bytes(X: T.Tensor((64,), T.uint8), Y: T.Tensor((16,), T.int32)):
    """Y = the words of X, plus 1."""
    with T.Kernel(1, threads=32):
        words = T.view(X, (16,), T.int32)
        for i in T.Parallel(16):
            Y[i] = words[i] + 1
