# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201, ANN202
"""Kernels of which tiles are cut, and that ask again for what threads may hold, with calls."""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def turned_and_cut(X):
    """A transpose through shared memory; loads behind a store that is left out are none."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 32), threads=128) as (bx, by):
        s = T.alloc_shared((32, 64), T.float16)
        T.copy(X[by * 32, bx * 64], s)
        for i, j in T.Parallel(64, 32):
            Y[bx * 64 + i, by * 32 + j] = T.cast(s[j, i], T.float32) * 2.0
    return Y


@tileprof.jit
def rows_named(X, at):
    """Rows that a list names, under a guard; each vector asks for its row once."""
    V, M, N = T.const("V, M, N")
    X: T.Tensor((V, N), T.float32)
    at: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 16), threads=128) as (bx, by):
        for i, j in T.Parallel(16, 128):
            if by * 16 + i < M:
                Y[by * 16 + i, bx * 128 + j] = X[at[by * 16 + i], bx * 128 + j]
    return Y


@tileprof.jit
def cross(X):
    """Sums of neighbours in shared memory, of which some are the same."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 16), threads=128) as (bx, by):
        s = T.alloc_shared((18, 66), T.float32)
        for i, j in T.Parallel(18, 66):
            y = by * 16 + i - 1
            x = bx * 64 + j - 1
            inside = (y >= 0) and (y < M) and (x >= 0) and (x < N)
            s[i, j] = T.if_then_else(inside, X[T.max(y, 0), T.max(x, 0)], 0.0)
        for i, j in T.Parallel(16, 64):
            around = s[i, j + 1] + s[i + 2, j + 1] + s[i + 1, j] + s[i + 1, j + 2]
            Y[by * 16 + i, bx * 64 + j] = around * 0.25 + s[i + 1, j + 1]
    return Y


@tileprof.jit
def diagonal(X):
    """Two stores of one place, of which NVRTC makes one."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 16), threads=128) as (bx, by):
        for i, j in T.Parallel(16, 128):
            if bx * 128 + j <= by * 16 + i:
                Y[by * 16 + i, bx * 128 + j] = X[by * 16 + i, bx * 128 + j]
            else:
                Y[by * 16 + i, bx * 128 + j] = 0.0
    return Y


@tileprof.jit
def biased(X, B):
    """A row that all rows of a tile add; extents are known at launch."""
    M, N = T.dynamic("M, N")
    X: T.Tensor((M, N), T.float16)
    B: T.Tensor((N,), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 256), T.ceildiv(M, 8), threads=128) as (bx, by):
        for i, j in T.Parallel(8, 256):
            Y[by * 8 + i, bx * 256 + j] = X[by * 8 + i, bx * 256 + j] + B[bx * 256 + j]
    return Y


@tileprof.jit
def lengths(X, L):
    """Rows up to a length of their own: points of one vector go different ways."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    L: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 8), threads=128) as (bx, by):
        for i, j in T.Parallel(8, 128):
            y = by * 8 + i
            x = bx * 128 + j
            if y < M and x < L[y]:
                Y[y, x] = X[y, x]
    return Y


@tileprof.jit
def squared(X, Y):
    """An element that is asked for twice, and rows that are longer than threads have vectors."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(M, threads=128) as b:
        for j in T.Parallel(N):
            Y[b, j] = X[b, j] * X[b, j] + X[0, 0]


@tileprof.jit
def less_one(X, At):
    """One thread stores an element that a list names; the guarded load is made by all."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    At: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        one = T.alloc_shared((1,), T.float32)
        one[0] = X[row, At[row]]
        for j in T.Parallel(N):
            Y[row, j] = X[row, j] - one[0]
    return Y


@tileprof.jit
def gained(X, Gain):
    """A row of gains, which guards of rows ask for again."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Gain: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(4, threads=128) as b:
        for k in T.serial(T.ceildiv(M, 16)):
            for i, j in T.Parallel(4, N):
                if (k * 4 + b) * 4 + i < M:
                    y = (k * 4 + b) * 4 + i
                    Y[y, j] = T.cast(T.cast(X[y, j], T.float32) * Gain[j], T.float16)
    return Y


@tileprof.jit
def pairs_of_rows(X):
    """Two stores under one guard, which stands around all loads of shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((2, M // 2, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 16), threads=128) as (bx, by):
        tile = T.alloc_shared((16, 128), T.float32)
        T.copy(X[by * 16, bx * 128], tile)
        for i, j in T.Parallel(8, 128):
            Y[0, by * 8 + i, bx * 128 + j] = tile[2 * i, j] + tile[2 * i + 1, j]
            Y[1, by * 8 + i, bx * 128 + j] = tile[2 * i, j] - tile[2 * i + 1, j]
    return Y


@tileprof.jit
def decayed(X):
    """An element of shared memory that a point asks for twice before it stores there."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(N // 128, threads=128) as bx:
        tile = T.alloc_shared((16, 128), T.float32)
        made = T.alloc_shared((16, 128), T.float32)
        state = T.alloc_fragment((128,), T.float32)
        T.clear(state)
        T.copy(X[0, bx * 128], tile)
        for t in T.serial(16):
            for c in T.Parallel(128):
                state[c] = tile[t, c] + 0.5 * (state[c] - tile[t, c])
                made[t, c] = state[c]
        for i, j in T.Parallel(16, 128):
            Y[i, bx * 128 + j] = made[i, j]
    return Y


@tileprof.jit
def steps_found(X, Ends):
    """A list that each point walks through, and asks for three times an iteration."""
    N, E = T.const("N, E")
    X: T.Tensor((N,), T.float32)
    Ends: T.Tensor((E,), T.int32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as b:
        for i in T.Parallel(128):
            before, start = T.int32(0), T.int32(0)
            for e in T.serial(E):
                if Ends[e] - start > b * 128 + i:
                    before = before + Ends[e]
                start = Ends[e]
            Y[b * 128 + i] = X[b * 128 + i] + T.cast(before, T.float32)
    return Y


@tileprof.jit
def divided(X, By):
    """Rows that are cut alike: their vectors share a branch, and what one loads the others have."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    By: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M // 8, threads=256) as b:
        for i, j in T.Parallel(8, N):
            Y[b * 8 + i, j] = X[b * 8 + i, j] / By[j]
    return Y


@tileprof.jit
def sums_of_groups(X, At, Factor, Sums, Squares):
    """Values behind checks of indices, of which the second one is loaded again, and factors that
    each element of a vector loads under its own condition."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    At: T.Tensor((M,), T.int32)
    Factor: T.Tensor((M,), T.float32)
    Sums: T.Tensor((16, N), T.float32)
    Squares: T.Tensor((16,), T.float32)
    with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
        held = T.alloc_fragment((8, 256), T.float32)
        T.copy(X[b * 8, 0], held)
        for i, j in T.Parallel(8, 256):
            if b * 8 + i < M and j < N:
                T.atomic_add(Sums[At[b * 8 + i], j], held[i, j] * Factor[b * 8 + i])
        for i in T.Parallel(8):
            if b * 8 + i < M:
                T.atomic_add(Squares[At[b * 8 + i]], Factor[b * 8 + i])
                T.atomic_add(Squares[At[b * 8 + i]], Factor[b * 8 + i] * Factor[b * 8 + i])


@tileprof.jit
def halves_of_sums(X):
    """Sums over warps that the store of one thread needs."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as m:
        row = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[m, 0], row)
        T.reduce_sum(row, total)
        Y[m] = total[0] * 0.5
    return Y


@tileprof.jit
def dots_of_threads(A, X):
    """Elements of threads that are converted between layouts before all of them are written."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    X: T.Tensor((K,), T.float16)
    Y = T.empty((M, 32), T.float32)
    with T.Kernel(M // 4, threads=(32, 4)) as b:
        tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
        a = T.alloc_local((8,), T.float16)
        x = T.alloc_local((8,), T.float16)
        total = T.alloc_local((1,), T.float32)
        T.clear(total)
        for v in T.vectorized(8):
            a[v] = A[b * 4 + ty, tx * 8 + v]
            x[v] = X[tx * 8 + v]
        for v in T.serial(8):
            total[0] += T.cast(a[v], T.float32) * T.cast(x[v], T.float32)
        Y[b * 4 + ty, tx] = total[0]
    return Y


@tileprof.jit
def bisected(X, Edges):
    """Two points of a thread that walk through a table apart from each other."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Edges: T.Tensor((63,), T.float32)
    Y = T.empty((N,), T.uint8)
    with T.Kernel(N // 256, threads=128) as b:
        for j in T.Parallel(256):
            x = X[b * 256 + j]
            at = T.alloc_var(T.int32, 0)
            for s in T.serial(6):
                if Edges[at + (32 >> s) - 1] <= x:
                    at = at + (32 >> s)
            Y[b * 256 + j] = at
    return Y


@tileprof.jit
def one_of_two(A, B, Pick):
    """Loads of both branches that NVRTC makes as one, from the buffer that a mask chooses."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    Pick: T.Tensor((N,), T.int32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(N // 512, threads=128) as b:
        for j in T.Parallel(512):
            if Pick[b * 512 + j] != 0:
                Y[b * 512 + j] = A[b * 512 + j] * 2.0
            else:
                Y[b * 512 + j] = B[b * 512 + j] * 3.0
    return Y


@tileprof.jit
def split(X):
    """An element with which both branches begin, in a guard; then one that only one of them has."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((2, M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 4), threads=64) as (bx, by):
        for i, j in T.Parallel(4, 64):
            y = by * 4 + i
            x = bx * 64 + j
            if y < M and x < N:
                if X[y, x] > 0.0:
                    Y[0, y, x] = X[y, x] * X[M - 1 - y, x]
                else:
                    Y[1, y, x] = -X[y, x]
    return Y


@tileprof.jit
def scaled_rows(X, Shift, Scale):
    """Two numbers of a row behind one guard, which threads hold for all their points."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Shift: T.Tensor((M,), T.float32)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, 8), threads=128) as b:
        held = T.alloc_fragment((8, N), T.float32)
        T.copy(X[b * 8, 0], held)
        for i, j in T.Parallel(8, N):
            if b * 8 + i < M:
                held[i, j] = (held[i, j] - Shift[b * 8 + i]) * Scale[b * 8 + i]
        T.copy(held, Y[b * 8, 0])
    return Y


def _floats(*shapes, dtype=np.float32):
    def make():
        draw = np.random.default_rng(0)
        return [draw.standard_normal(each).astype(dtype) for each in shapes]

    return make


def _half_and_float():
    draw = np.random.default_rng(0)
    return [draw.standard_normal((42, 256)).astype(np.float16), np.ones(256, np.float32)]


def _rows_and_scales():
    draw = np.random.default_rng(0)
    return [draw.standard_normal((37, 160)).astype(np.float16), *_floats((37,), (37,))()]


def _and(make, low, high, count):
    return lambda: [*make(), np.random.default_rng(1).integers(low, high, count).astype(np.int32)]


def _groups():
    x, factor = _floats((21, 200), (21,))()
    at = np.random.default_rng(1).integers(0, 16, 21).astype(np.int32)
    return [x, at, factor, np.zeros((16, 200), np.float32), np.zeros(16, np.float32)]


CALLS = [
    (turned_and_cut, _floats((70, 136), dtype=np.float16), "transpose"),
    (turned_and_cut, _floats((70, 133), dtype=np.float16), "transpose of odd rows"),
    (rows_named, _and(_floats((32, 200)), 0, 32, 37), "gather"),
    (cross, _floats((32, 128)), "stencil"),
    (diagonal, _floats((64, 256)), "triangle"),
    (biased, _floats((21, 512), (512,), dtype=np.float16), "bias"),
    (biased, _floats((21, 333), (333,), dtype=np.float16), "bias of odd rows"),
    (lengths, _and(_floats((20, 256)), 0, 256, 20), "lengths"),
    (squared, _floats((6, 300), (6, 300)), "square"),
    (cross, _floats((37, 130)), "cut stencil"),
    (less_one, _and(_floats((5, 256)), 0, 256, 5), "element of a list"),
    (gained, _half_and_float, "gains of rows"),
    (pairs_of_rows, _floats((70, 200)), "two stores"),
    (decayed, _floats((16, 256)), "scan"),
    (divided, _floats((16, 100), (100,)), "rows cut alike"),
    (sums_of_groups, _groups, "sums of groups"),
    (halves_of_sums, _floats((5, 512)), "halves of sums"),
    (dots_of_threads, _floats((4, 256), (256,), dtype=np.float16), "dots of threads"),
    (bisected, lambda: [*_floats((512,))(), np.linspace(-2, 2, 63, dtype=np.float32)], "bisection"),
    (steps_found, _and(_floats((500,)), 0, 600, 3), "walked list"),
    (one_of_two, _and(_floats((1_024,), (1_024,)), 0, 2, 1_024), "one of two"),
    (split, _floats((22, 150)), "split"),
    (scaled_rows, _rows_and_scales, "scaled rows"),
]
"""Kernels, what makes their arguments, and names."""
