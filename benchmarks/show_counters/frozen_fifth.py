"""A fifth set of kernels whose pages were written down before a GPU ran them: rows, tables, images.

An H200 ran them on 2026-11-29 at 20:28 UTC for the first time: 433 of 465 numbers were exact, and
one more was within 1 %.  The 31 others were in five kernels (docs/show.md).  Since then they are
development kernels.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.frozen_fifth_products import FIFTH_PRODUCTS
from benchmarks.show_counters.kernels import Case

_BF16 = ml_dtypes.bfloat16


@tileprof.jit
def capped_in_place(X, rows: int = 16, columns: int = 64):
    """Tiles changed in shared memory and stored from there, rows of 25 half sectors."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        held = T.alloc_shared((rows, columns), T.bfloat16)
        T.copy(X[by * rows, bx * columns], held)
        for i, j in T.Parallel(rows, columns):
            held[i, j] = T.min(T.max(held[i, j], T.bfloat16(-1.0)), T.bfloat16(1.0))
        T.copy(held, Y[by * rows, bx * columns])
    return Y


@tileprof.jit
def ranges_of_classes(X, Class, Low, High, part: int = 1024):
    """Least and largest number of each of 24 classes, in shared memory, then for all blocks."""
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Class: T.Tensor((N,), T.uint8)
    Low: T.Tensor((24,), T.int32)
    High: T.Tensor((24,), T.int32)
    with T.Kernel(T.ceildiv(N, part), threads=256) as b:
        low = T.alloc_shared((24,), T.int32)
        high = T.alloc_shared((24,), T.int32)
        T.fill(low, 2147483647)
        T.fill(high, -2147483648)
        for j in T.Parallel(part):
            if b * part + j < N:
                T.atomic_min(low[Class[b * part + j]], X[b * part + j])
                T.atomic_max(high[Class[b * part + j]], X[b * part + j])
        for c in T.Parallel(24):
            T.atomic_min(Low[c], low[c])
            T.atomic_max(High[c], high[c])


@tileprof.jit
def neighbours_averaged(X, Near, nodes: int = 8):
    """Means over the four neighbours of each node, which a table names, often the same."""
    V, D, M = T.const("V, D, M")
    X: T.Tensor((V, D), T.bfloat16)
    Near: T.Tensor((M, 4), T.int32)
    Y = T.empty((M, D), T.bfloat16)
    with T.Kernel(T.ceildiv(M, nodes), threads=96) as b:
        sums = T.alloc_fragment((nodes, D), T.float32)
        T.clear(sums)
        for n in T.serial(4):
            for i, d in T.Parallel(nodes, D):
                if b * nodes + i < M:
                    sums[i, d] += X[Near[b * nodes + i, n], d]
        for i, d in T.Parallel(nodes, D):
            if b * nodes + i < M:
                Y[b * nodes + i, d] = sums[i, d] * 0.25
    return Y


@tileprof.jit
def columns_summed_ahead(X, rows: int = 16):
    """Sums of 102 columns of halves, tiles of rows loaded three iterations ahead."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=128):
        held = T.alloc_shared((rows, N), T.float16)
        sums = T.alloc_fragment((N,), T.float32)
        part = T.alloc_fragment((rows, N), T.float32)
        T.clear(sums)
        for m in T.Pipelined(T.ceildiv(M, rows), num_stages=3):
            T.copy(X[m * rows, 0], held)
            T.copy(held, part)
            T.reduce_sum(part, sums, dim=0, clear=False)
        T.copy(sums, Y)
    return Y


@tileprof.jit
def dots_ahead(A, B, part: int = 100):
    """Dot products of rows of two matrices, parts of 200 bytes loaded ahead."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B: T.Tensor((M, N), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M // 8, threads=64) as b:
        left = T.alloc_shared((8, part), T.float16)
        right = T.alloc_shared((8, part), T.float16)
        products = T.alloc_fragment((8, part), T.float32)
        sums = T.alloc_fragment((8,), T.float32)
        T.clear(products)
        for k in T.Pipelined(N // part, num_stages=2):
            T.copy(A[b * 8, k * part], left)
            T.copy(B[b * 8, k * part], right)
            for i, j in T.Parallel(8, part):
                products[i, j] += T.cast(left[i, j], T.float32) * T.cast(right[i, j], T.float32)
        T.reduce_sum(products, sums, dim=1)
        T.copy(sums, Y[b * 8])
    return Y


@tileprof.jit
def bytes_turned(X, tile: int = 64):
    """A transpose of bytes; tiles are cut on both sides."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.uint8)
    Y = T.empty((N, M), T.uint8)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=256) as (bx, by):
        held = T.alloc_shared((tile, tile), T.uint8)
        T.copy(X[by * tile, bx * tile], held)
        for i, j in T.Parallel(tile, tile):
            Y[bx * tile + i, by * tile + j] = held[j, i]
    return Y


@tileprof.jit
def last_axis_first(X, tile: int = 16):
    """An array of three axes of which the last becomes the first."""
    A, B, C = T.const("A, B, C")
    X: T.Tensor((A, B, C), T.float32)
    Y = T.empty((C, A, B), T.float32)
    with T.Kernel(C // tile, T.ceildiv(B, 32), A, threads=128) as (bc, bb, a):
        held = T.alloc_shared((32, tile + 1), T.float32)
        for i, j in T.Parallel(32, tile):
            held[i, j] = X[a, bb * 32 + i, bc * tile + j]
        for j, i in T.Parallel(tile, 32):
            Y[bc * tile + j, a, bb * 32 + i] = held[i, j]
    return Y


@tileprof.jit
def logarithms_of_sums(X):
    """Logarithms of the sums of exponentials of rows of 1,000 numbers."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as m:
        row = T.alloc_fragment((1024,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for j in T.Parallel(1024):
            row[j] = T.if_then_else(j < N, X[m, j], -T.infinity(T.float32))
        T.reduce_max(row, top)
        for j in T.Parallel(1024):
            row[j] = T.exp(row[j] - top[0])
        T.reduce_sum(row, total)
        Y[m] = T.log(total[0]) + top[0]
    return Y


@tileprof.jit
def positive_ones_kept(X, part: int = 512):
    """Positive numbers moved together in each row of 512, and how many they are."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Count = T.empty((T.ceildiv(N, part),), T.int32)
    Kept = T.empty((T.ceildiv(N, part), part), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        places = T.alloc_shared((part,), T.int32)
        for j in T.Parallel(part):
            places[j] = T.if_then_else(b * part + j < N and X[b * part + j] > 0.0, 1, 0)
        T.cumsum(places)
        Count[b] = places[part - 1]
        for j in T.Parallel(part):
            if b * part + j < N and X[b * part + j] > 0.0:
                Kept[b, places[j] - 1] = X[b * part + j]
    return Count, Kept


@tileprof.jit
def high_water(X, columns: int = 32):
    """Running maxima down the columns."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), threads=128) as b:
        held = T.alloc_shared((M, columns), T.float32)
        T.copy(X[0, b * columns], held)
        T.cummax(held, dim=0)
        T.copy(held, Y[0, b * columns])
    return Y


@tileprof.jit
def mirrored_borders(X, border: int = 3):
    """Images with a border of three pixels, mirrored at the edges."""
    B, M, N = T.const("B, M, N")
    X: T.Tensor((B, M, N), T.uint8)
    Y = T.empty((B, M + 2 * border, N + 2 * border), T.uint8)
    with T.Kernel(T.ceildiv(N + 2 * border, 64), T.ceildiv(M + 2 * border, 8), B, threads=128) as (
        bx, by, b,
    ):  # fmt: skip
        for i, j in T.Parallel(8, 64):
            y, x = by * 8 + i - border, bx * 64 + j - border
            if y < M + border and x < N + border:
                up = T.min(T.abs(y), 2 * (M - 1) - T.abs(y))
                left = T.min(T.abs(x), 2 * (N - 1) - T.abs(x))
                Y[b, y + border, x + border] = X[b, up, left]
    return Y


@tileprof.jit
def sums_both_ways(X, Rows, Columns, tile: int = 64):
    """Sums of rows and of columns of tiles in a swizzled layout, added by atomics."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Rows: T.Tensor((M,), T.float32)
    Columns: T.Tensor((N,), T.float32)
    with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
        held = T.alloc_shared((tile, tile), T.float32)
        T.annotate_layout({held: T.make_swizzled_layout(held)})
        across = T.alloc_fragment((tile,), T.float32)
        down = T.alloc_fragment((tile,), T.float32)
        T.copy(X[by * tile, bx * tile], held)
        T.reduce_sum(held, across, dim=1)
        T.reduce_sum(held, down, dim=0)
        for i in T.Parallel(tile):
            T.atomic_add(Rows[by * tile + i], across[i])
            T.atomic_add(Columns[bx * tile + i], down[i])


@tileprof.jit
def pixels_to_planes(X, Mean, part: int = 256):
    """Pixels of three bytes as three planes of halves, less a mean of each colour."""
    P = T.const("P")
    X: T.Tensor((P, 3), T.uint8)
    Mean: T.Tensor((3,), T.float32)
    Y = T.empty((3, P), T.float16)
    with T.Kernel(T.ceildiv(P, part), threads=128) as b:
        for c, j in T.Parallel(3, part):
            if b * part + j < P:
                Y[c, b * part + j] = T.cast(X[b * part + j, c], T.float32) / 255.0 - Mean[c]
    return Y


@tileprof.jit
def shorts_of_doubles(X, rows: int = 8):
    """Doubles over the largest of their row as whole numbers of 16 bits, with a scale as double."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    Y = T.empty((M, N), T.int16)
    Scale = T.empty((M,), T.float64)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        held = T.alloc_fragment((rows, N), T.float64)
        top = T.alloc_fragment((rows,), T.float64)
        T.copy(X[b * rows, 0], held)
        T.reduce_absmax(held, top, dim=1)
        for i, j in T.Parallel(rows, N):
            if b * rows + i < M:
                Y[b * rows + i, j] = T.cast(T.round(held[i, j] / top[i] * 32767.0), T.int16)
        for i in T.Parallel(rows):
            if b * rows + i < M:
                Scale[b * rows + i] = top[i] / 32767.0
    return Y, Scale


@tileprof.jit
def buckets_found(X, Edges, part: int = 512):
    """The bucket of each number, by bisection of 63 sorted edges."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Edges: T.Tensor((63,), T.float32)
    Y = T.empty((N,), T.uint8)
    with T.Kernel(T.ceildiv(N, part), threads=256) as b:
        for j in T.Parallel(part):
            if b * part + j < N:
                x = X[b * part + j]
                at = T.alloc_var(T.int32, 0)
                for s in T.serial(6):
                    half = 32 >> s
                    if Edges[at + half - 1] <= x:
                        at = at + half
                Y[b * part + j] = at
    return Y


@tileprof.jit
def warp_dots(A, X, rows: int = 4):
    """A matrix by a vector as for single threads: a warp a row, 16 bytes a thread at once."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    X: T.Tensor((K,), T.float16)
    Y = T.empty((M,), T.float16)
    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as b:
        tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
        a = T.alloc_local((8,), T.float16)
        x = T.alloc_local((8,), T.float16)
        sums = T.alloc_local((1,), T.float32)
        whole = T.alloc_local((1,), T.float32)
        T.clear(sums)
        for k in T.serial(K // 256):
            for v in T.vectorized(8):
                a[v] = A[b * rows + ty, k * 256 + tx * 8 + v]
                x[v] = X[k * 256 + tx * 8 + v]
            for v in T.serial(8):
                sums[0] += T.cast(a[v], T.float32) * T.cast(x[v], T.float32)
        with T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):  # fmt: skip
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), sums[0], True, whole[0], tx))
        if tx == 0:
            Y[b * rows + ty] = whole[0]
    return Y


@tileprof.jit
def columns_softmax(X, part: int = 32):
    """A softmax down columns in two launches: maxima and sums first, then all elements."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Top = T.alloc_global((N,), T.float32)
    Sum = T.alloc_global((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        held = T.alloc_fragment((M, part), T.float32)
        top = T.alloc_fragment((part,), T.float32)
        total = T.alloc_fragment((part,), T.float32)
        T.copy(X[0, b * part], held)
        T.reduce_max(held, top, dim=0)
        for i, j in T.Parallel(M, part):
            held[i, j] = T.exp(held[i, j] - top[j])
        T.reduce_sum(held, total, dim=0)
        T.copy(top, Top[b * part])
        T.copy(total, Sum[b * part])
    with T.Kernel(T.ceildiv(M, 8), threads=256) as b:
        for i, j in T.Parallel(8, N):
            if b * 8 + i < M:
                Y[b * 8 + i, j] = T.exp(X[b * 8 + i, j] - Top[j]) / Sum[j]
    return Y


def _classes(draw):
    high = 2147483647
    return [draw.integers(-1000, 1000, 7_000, np.int32), draw.integers(0, 24, 7_000, np.uint8),
            np.full(24, high, np.int32), np.full(24, -high - 1, np.int32)]  # fmt: skip


def _sums(draw):
    return [draw.standard_normal((128, 192), np.float32), np.zeros(128, np.float32),
            np.zeros(192, np.float32)]  # fmt: skip


def _edges(draw):
    return [draw.standard_normal(4_001, np.float32),
            np.sort(draw.standard_normal(63, np.float32))]  # fmt: skip


FROZEN_FIFTH: tuple[Case, ...] = (
    Case(capped_in_place, drawn_as(((75, 200), _BF16)), "tiles changed and stored, cut in sectors"),
    Case(ranges_of_classes, _classes, "least and largest by atomics in shared memory"),
    Case(neighbours_averaged, drawn_as(((40, 72), _BF16), ((101, 4), np.int32, 0, 40)),
         "means of gathered rows, 96 threads"),
    Case(columns_summed_ahead, drawn_as(((130, 102), np.float16)),
         "rows of 204 bytes loaded ahead"),
    Case(dots_ahead, drawn_as(((64, 500), np.float16), ((64, 500), np.float16)),
         "rows of 200 bytes loaded ahead"),
    Case(bytes_turned, drawn_as(((150, 208), np.uint8, 0, 256)), "transpose of bytes"),
    Case(last_axis_first, drawn_as(((5, 75, 64), np.float32)), "last of three axes first"),
    Case(logarithms_of_sums, drawn_as(((40, 1000), np.float32)), "log of sums, masked rows"),
    Case(positive_ones_kept, drawn_as(((3_000,), np.float32)), "numbers moved together by a scan"),
    Case(high_water, drawn_as(((90, 100), np.float32)), "running maxima of columns"),
    Case(mirrored_borders, drawn_as(((2, 45, 130), np.uint8, 0, 256)), "mirrored borders"),
    Case(sums_both_ways, _sums, "sums of a swizzled tile"),
    Case(pixels_to_planes, drawn_as(((5_001, 3), np.uint8, 0, 256), ((3,), np.float32)),
         "bytes of pixels to planes of halves"),
    Case(shorts_of_doubles, drawn_as(((45, 192), np.float64)), "doubles as 16-bit numbers"),
    Case(buckets_found, _edges, "bisection"),
    Case(warp_dots, drawn_as(((50, 1024), np.float16), ((1024,), np.float16)),
         "matrix by vector, a warp a row"),
    Case(columns_softmax, drawn_as(((96, 100), np.float32)), "softmax of columns, two launches"),
    *FIFTH_PRODUCTS,
)  # fmt: skip
