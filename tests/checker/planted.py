# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels with one fault each, and one without.

The lines of the fault end in `# 1` and, for a pair, `# 2`.
"""

import tileprof
import tileprof.lang as T


@tileprof.jit
def one_too_many(A):
    """The last point of each block writes the first element of the next one."""
    A: T.Tensor((256,), T.float32)
    B = T.empty((256,), T.float32)
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(65):
            B[bx * 64 + i] = A[bx * 64 + i]  # 1
    return B


@tileprof.jit
def last_wins(A):
    """All blocks write one element."""
    A: T.Tensor((4,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        A[0] = T.cast(bx, T.float32)  # 1


@tileprof.jit
def forgotten_axis(A):
    """Blocks of one column write the same tile."""
    A: T.Tensor((64, 64), T.float32)
    B = T.empty((64, 64), T.float32)
    with T.Kernel(2, 2, threads=64) as (bx, by):
        s = T.alloc_shared((32, 32), T.float32)
        T.copy(A[by * 32, bx * 32], s)
        T.copy(s, B[bx * 32, bx * 32])  # 1
    return B


@tileprof.jit
def shift_in_place(A):
    """A block reads the first element of the next block, which that block writes."""
    A: T.Tensor((128,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        f = T.alloc_fragment((32,), T.float32)
        for i in T.Parallel(32):
            f[i] = A[bx * 32 + i + 1]  # 1
        for i in T.Parallel(32):
            A[bx * 32 + i] = f[i]  # 2


@tileprof.jit
def wide_tiles(A):
    """Tiles of 24 rows every 16 rows."""
    A: T.Tensor((64, 8), T.float32)
    B = T.empty((64, 8), T.float32)
    with T.Kernel(4, threads=32) as bx:
        f = T.alloc_fragment((24, 8), T.float32)
        T.copy(A[bx * 16, 0], f)
        T.copy(f, B[bx * 16, 0])  # 1
    return B


@tileprof.jit
def sum_without_atomics(A, S):
    """Each block adds its part to one row: a read and a write that others make too."""
    A: T.Tensor((4, 32), T.float32)
    S: T.Tensor((32,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        for i in T.Parallel(32):
            S[i] = S[i] + A[bx, i]  # 1


@tileprof.jit
def cleared_meanwhile(A, S):
    """Block 0 clears the sum to which others add."""
    A: T.Tensor((4, 32), T.float32)
    S: T.Tensor((1,), T.float32)
    with T.Kernel(4, threads=32) as bx:
        if bx == 0:
            S[0] = 0.0  # 1
        for i in T.Parallel(32):
            T.atomic_add(S[0], A[bx, i])  # 2


@tileprof.jit
def wrong_stride(A):
    """Each of three blocks takes every second row."""
    A: T.Tensor((12,), T.float32)
    with T.Kernel(3, threads=32) as bx:
        for k in T.serial(4):
            A[bx + k * 2] = 1.0  # 1


@tileprof.jit
def wrong_quotient(A):
    """Row by 3, column by 2: blocks 0 and 2 write one element."""
    A: T.Tensor((2, 3), T.float32)
    with T.Kernel(6, threads=32) as bx:
        A[bx // 3, bx % 2] = 1.0  # 1


@tileprof.jit
def scatter(A, Index):
    """Each block writes where an index says; two say the same."""
    A: T.Tensor((8,), T.float32)
    Index: T.Tensor((4,), T.int32)
    with T.Kernel(4, threads=32) as bx:
        A[Index[bx]] = 1.0  # 1


@tileprof.jit
def through_a_view(A):
    """Blocks write rows through one shape and read them through another."""
    A: T.Tensor((4, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        flat = T.reshape(A, (32,))
        v = T.alloc_var(T.float32, init=0.0)
        v = flat[bx * 8 + 16]  # 1
        A[bx + 1, 0] = v  # 2


@tileprof.jit
def sum_not_cleared(A):
    """A product is added to what nobody wrote."""
    A: T.Tensor((32, 32), T.float32)
    C = T.empty((32, 32), T.float32)
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((32, 32), T.float32)
        acc = T.alloc_fragment((32, 32), T.float32)
        T.copy(A, s)
        T.gemm(s, s, acc)  # 1
        T.copy(acc, C)
    return C


@tileprof.jit
def read_too_early(A):
    """Shared memory is read before it is filled."""
    A: T.Tensor((2, 8), T.float32)
    C = T.empty((2, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_shared((8,), T.float32)
        for i in T.Parallel(8):
            C[bx, i] = s[i]  # 1
        T.copy(A[bx, :], s)
    return C


@tileprof.jit
def output_read(A):
    """An output is read before it has a value."""
    A: T.Tensor((8,), T.float32)
    C = T.empty((8,), T.float32)
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(4):
            C[bx * 4 + i] = C[bx * 4 + i] + A[bx * 4 + i]  # 1
    return C


@tileprof.jit
def filled_in_a_branch(A):
    """Only block 0 fills the tile that all blocks read."""
    A: T.Tensor((2, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_shared((8,), T.float32)
        if bx == 0:
            T.clear(s)
        T.copy(s, A[bx, :])  # 1


@tileprof.jit
def filled_in_part(A):
    """Seven of eight elements are written."""
    A: T.Tensor((2, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_shared((8,), T.float32)
        for i in T.Parallel(7):
            s[i] = 0.0
        T.copy(s, A[bx, :])  # 1


@tileprof.jit
def loop_that_never_runs(A, Count):
    """The tile is filled in a loop that has no iteration."""
    A: T.Tensor((8,), T.float32)
    Count: T.Tensor((1,), T.int32)
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((8,), T.float32)
        for _ in T.serial(Count[0]):
            T.clear(s)
        T.copy(s, A)  # 1


@tileprof.jit
def left_of_the_tensor(A):
    """Block 0 reads at -1."""
    A: T.Tensor((8,), T.float32)
    C = T.empty((8,), T.float32)
    with T.Kernel(8, threads=32) as bx:
        C[bx] = A[bx - 1]  # 1
    return C


@tileprof.jit
def tile_above_the_tensor(A):
    """The tile of block 0 begins two rows above."""
    A: T.Tensor((32, 8), T.float32)
    C = T.empty((32, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        f = T.alloc_fragment((16, 8), T.float32)
        T.copy(A[bx * 16 - 2, 0], f)  # 1
        T.copy(f, C[bx * 16, 0])
    return C


@tileprof.jit
def outside_of_shared_memory(A):
    """The last point of block 1 writes behind the shared buffer."""
    A: T.Tensor((2, 8), T.float32)
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_shared((8,), T.float32)
        T.clear(s)
        for i in T.Parallel(8):
            s[i + bx] = 1.0  # 1
        T.copy(s, A[bx, :])


@tileprof.jit
def points_meet(A):
    """Two points of one T.Parallel write one element."""
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i // 2] = 1.0  # 1


@tileprof.jit
def persistent(A):
    """Seven blocks share 7 × 5 tiles; no fault."""
    A: T.Tensor((100, 80), T.float32)
    B = T.empty((100, 80), T.float32)
    with T.Kernel(7, threads=64) as bx:
        f = T.alloc_fragment((16, 16), T.float32)
        for m, n in T.Persistent([7, 5], 7, bx):
            T.copy(A[m * 16, n * 16], f)
            T.copy(f, B[m * 16, n * 16])
    return B
