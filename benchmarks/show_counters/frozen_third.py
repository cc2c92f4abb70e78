"""A third set of kernels whose pages were written down before a GPU ran them: rows, tables, images.

An H200 ran them on 2026-11-29 for the first time; since then they are development kernels.
Products are in `frozen_third_products`.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.kernels import Case

_BF16 = ml_dtypes.bfloat16


@tileprof.jit
def sloped_scores(S, Slope, tile: int = 32):
    """Scores with a slope of each head added by distance, at most 40 apart."""
    H, L = T.const("H, L")
    S: T.Tensor((H, L, L), T.float16)
    Slope: T.Tensor((H,), T.float32)
    Y = T.empty((H, L, L), T.float16)
    with T.Kernel(T.ceildiv(L, tile), T.ceildiv(L, tile), H, threads=128) as (bx, by, h):
        for i, j in T.Parallel(tile, tile):
            q, k = by * tile + i, bx * tile + j
            apart = T.cast(q - k, T.float32)
            near = (k <= q) and (q - k < 40)
            Y[h, q, k] = T.if_then_else(
                near, T.cast(S[h, q, k], T.float32) - apart * Slope[h], -60000.0
            )
    return Y


@tileprof.jit
def channels_behind(X, tile: int = 32):
    """Images with channels in front, turned so that the 19 channels come last."""
    B, C, P = T.const("B, C, P")
    X: T.Tensor((B, C, P), T.float32)
    Y = T.empty((B, P, C), T.float32)
    with T.Kernel(T.ceildiv(P, tile), T.ceildiv(C, tile), B, threads=256) as (bx, by, b):
        held = T.alloc_shared((tile, tile + 1), T.float32)
        for i, j in T.Parallel(tile, tile):
            if by * tile + i < C and bx * tile + j < P:
                held[i, j] = X[b, by * tile + i, bx * tile + j]
        for i, j in T.Parallel(tile, tile):
            if bx * tile + i < P and by * tile + j < C:
                Y[b, bx * tile + i, by * tile + j] = held[j, i]
    return Y


@tileprof.jit
def pixels_shuffled(X, rows: int = 4, columns: int = 64):
    """Four channels become squares of two by two pixels."""
    C, M, N = T.const("C, M, N")
    X: T.Tensor((C, M, N), T.float32)
    Y = T.empty((C // 4, 2 * M, 2 * N), T.float32)
    with T.Kernel(T.ceildiv(2 * N, columns), T.ceildiv(2 * M, rows), C // 4, threads=128) as (
        bx,
        by,
        c,
    ):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            Y[c, y, x] = X[c * 4 + y % 2 * 2 + x % 2, y // 2, x // 2]
    return Y


@tileprof.jit
def byte_histogram(X, Bins, part: int = 4096):
    """How often each byte is there, in shared memory, then for all blocks."""
    N = T.const("N")
    X: T.Tensor((N,), T.uint8)
    Bins: T.Tensor((256,), T.int32)
    with T.Kernel(T.ceildiv(N, part), threads=256) as b:
        held = T.alloc_shared((256,), T.int32)
        T.clear(held)
        for j in T.Parallel(part):
            if b * part + j < N:
                T.atomic_add(held[T.cast(X[b * part + j], T.int32)], 1)
        for j in T.Parallel(256):
            if held[j] > 0:
                T.atomic_add(Bins[j], held[j])


@tileprof.jit
def largest_of_groups(X, Group, Best):
    """The largest whole number of each group that a list names, by atomics."""
    M, N, G = T.const("M, N, G")
    X: T.Tensor((M, N), T.int32)
    Group: T.Tensor((M,), T.int32)
    Best: T.Tensor((G, N), T.int32)
    with T.Kernel(T.ceildiv(N, 96), T.ceildiv(M, 4), threads=96) as (bx, by):
        for i, j in T.Parallel(4, 96):
            if by * 4 + i < M and bx * 96 + j < N:
                T.atomic_max(Best[Group[by * 4 + i], bx * 96 + j], X[by * 4 + i, bx * 96 + j])


@tileprof.jit
def halves_rotated(X, Cos, Sin, rows: int = 8):
    """The two halves of each head rotated into each other, extents known at launch."""
    L, H, D = T.dynamic("L"), T.const("H"), T.const("D")
    X: T.Tensor((L, H, D), T.bfloat16)
    Cos: T.Tensor((L, D // 2), T.float32)
    Sin: T.Tensor((L, D // 2), T.float32)
    Y = T.empty((L, H, D), T.bfloat16)
    with T.Kernel(T.ceildiv(L, rows), H, threads=128) as (bx, h):
        for i, d in T.Parallel(rows, D // 2):
            at = bx * rows + i
            a = T.cast(X[at, h, d], T.float32)
            b = T.cast(X[at, h, d + D // 2], T.float32)
            Y[at, h, d] = a * Cos[at, d] - b * Sin[at, d]
            Y[at, h, d + D // 2] = b * Cos[at, d] + a * Sin[at, d]
    return Y


@tileprof.jit
def largest_of_five(X, part: int = 256):
    """The largest of five neighbours, through shared memory with a border of two."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, part), M, threads=128) as (bx, row):
        line = T.alloc_shared((part + 4,), T.float16)
        for j in T.Parallel(part + 4):
            line[j] = X[row, T.min(T.max(bx * part + j - 2, 0), N - 1)]
        for j in T.Parallel(part):
            a = T.max(T.max(line[j], line[j + 1]), T.max(line[j + 3], line[j + 4]))
            Y[row, bx * part + j] = T.max(a, line[j + 2])
    return Y


@tileprof.jit
def columns_to_fp8(X, Scale, rows: int = 16, columns: int = 160):
    """Elements over a scale of their column, kept in a range, as 8-bit floats."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Scale: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float8_e4m3fn)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=160) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            value = T.cast(X[y, x], T.float32) / Scale[x]
            Y[y, x] = T.cast(T.clamp(value, -448.0, 448.0), T.float8_e4m3fn)
    return Y


@tileprof.jit
def tokens_or_zeros(Table, At, columns: int = 128):
    """Rows of a table that a list names; zeros where it has a negative number."""
    V, N, M = T.const("V, N, M")
    Table: T.Tensor((V, N), T.float16)
    At: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, 8), threads=128) as (bx, by):
        for i, j in T.Parallel(8, columns):
            m, n = by * 8 + i, bx * columns + j
            if m < M:
                if At[m] >= 0:
                    Y[m, n] = Table[T.max(At[m], 0), n]
                else:
                    Y[m, n] = 0.0
    return Y


@tileprof.jit
def keys_written(K, Slot, Cache):
    """New keys put into the slots of a cache that a list names."""
    M, H, D, S = T.const("M, H, D, S")
    K: T.Tensor((M, H, D), T.bfloat16)
    Slot: T.Tensor((M,), T.int32)
    Cache: T.Tensor((S, H, D), T.bfloat16)
    with T.Kernel(M, threads=64) as m:
        for h, d in T.Parallel(H, D):
            Cache[Slot[m], h, d] = K[m, h, d]


@tileprof.jit
def means_up_to(X, Length, part: int = 128):
    """Means of columns over the first rows of each sequence, as many as a list says."""
    B, L, N = T.const("B, L, N")
    X: T.Tensor((B, L, N), T.float32)
    Length: T.Tensor((B,), T.int32)
    Y = T.empty((B, N), T.float32)
    with T.Kernel(T.ceildiv(N, part), B, threads=128) as (bx, b):
        total = T.alloc_fragment((part,), T.float32)
        T.clear(total)
        for row in T.serial(Length[b]):
            for j in T.Parallel(part):
                total[j] += X[b, row, bx * part + j]
        for j in T.Parallel(part):
            Y[b, bx * part + j] = total[j] / T.cast(Length[b], T.float32)
    return Y


@tileprof.jit
def every_other_column(X, rows: int = 64, columns: int = 64):
    """Every other column of tiles in plain shared memory, turned."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((N // 2, M), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        tile = T.alloc_shared((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], tile)
        for i, j in T.Parallel(columns // 2, rows):
            Y[bx * (columns // 2) + i, by * rows + j] = tile[j, 2 * i]
    return Y


@tileprof.jit
def groups_normalised(X, Gain, channels: int = 8):
    """Groups of channels less their mean, over their deviation, with a gain of each channel."""
    B, C, P = T.const("B, C, P")
    X: T.Tensor((B, C, P), T.float32)
    Gain: T.Tensor((C,), T.float32)
    Y = T.empty((B, C, P), T.float32)
    with T.Kernel(C // channels, B, threads=128) as (g, b):
        held = T.alloc_fragment((channels, P), T.float32)
        squares = T.alloc_fragment((channels, P), T.float32)
        lines = T.alloc_fragment((channels,), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        power = T.alloc_fragment((1,), T.float32)
        T.copy(X[b, g * channels : (g + 1) * channels, 0:P], held)
        for i, j in T.Parallel(channels, P):
            squares[i, j] = held[i, j] * held[i, j]
        T.reduce_sum(held, lines, dim=1)
        T.reduce_sum(lines, mean)
        T.reduce_sum(squares, lines, dim=1)
        T.reduce_sum(lines, power)
        for i, j in T.Parallel(channels, P):
            m = mean[0] / (channels * P)
            scale = T.rsqrt(power[0] / (channels * P) - m * m + 1e-5)
            Y[b, g * channels + i, j] = (held[i, j] - m) * scale * Gain[g * channels + i]
    return Y


@tileprof.jit
def blends_of_tables(Low, High, Weight):
    """Two neighbouring entries of a table of 31 mixed by the fraction of each number."""
    N = T.const("N")
    Low: T.Tensor((31,), T.float32)
    High: T.Tensor((31,), T.float32)
    Weight: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 512), threads=128) as b:
        table = T.alloc_shared((2, 31), T.float32)
        for j in T.Parallel(31):
            table[0, j] = Low[j]
            table[1, j] = High[j]
        for j in T.Parallel(512):
            if b * 512 + j < N:
                w = T.clamp(Weight[b * 512 + j] * 8.0 + 15.0, 0.0, 29.5)
                at = T.cast(T.floor(w), T.int32)
                part = w - T.floor(w)
                Y[b * 512 + j] = table[0, at] * (1.0 - part) + table[1, at + 1] * part
    return Y


def _slots(draw):
    new, cache = (draw.standard_normal((n, 4, 72), np.float32).astype(_BF16) for n in (24, 64))
    return [new, draw.permutation(64)[:24].astype(np.int32), cache]


THIRD_ROWS: tuple[Case, ...] = (
    Case(sloped_scores, drawn_as(((3, 75, 75), np.float16), ((3,), np.float32)),
         "scores with slopes, odd rows of halves"),
    Case(channels_behind, drawn_as(((2, 19, 200), np.float32)), "channels last, odd channels"),
    Case(pixels_shuffled, drawn_as(((12, 10, 50), np.float32)), "pixel shuffle"),
    Case(byte_histogram, drawn_as(((30_000,), np.uint8, 0, 256), ((256,), np.int32, 0, 1)),
         "histogram of bytes in shared memory"),
    Case(largest_of_groups, drawn_as(((77, 250), np.int32, 0, 1000), ((77,), np.int32, 0, 9),
                                     ((9, 250), np.int32, 0, 1)), "atomic maxima of groups"),
    Case(halves_rotated, drawn_as(((75, 3, 64), _BF16), ((75, 32), np.float32),
                                  ((75, 32), np.float32)), "rotary halves, length known at launch"),
    Case(largest_of_five, drawn_as(((9, 700), np.float16)), "window of five, shared halves"),
    Case(columns_to_fp8, drawn_as(((50, 480), _BF16), ((480,), np.float32)),
         "fp8 with scales of columns, 160 threads"),
    Case(tokens_or_zeros, drawn_as(((100, 328), np.float16), ((61,), np.int32, -20, 100)),
         "gather with negative numbers"),
    Case(keys_written, _slots, "scatter into a cache"),
    Case(means_up_to, drawn_as(((5, 40, 200), np.float32), ((5,), np.int32, 1, 41)),
         "loops as long as a list says"),
    Case(every_other_column, drawn_as(((150, 192), np.float32)), "strided columns of shared tiles"),
    Case(groups_normalised, drawn_as(((3, 24, 128), np.float32), ((24,), np.float32)),
         "group norm"),
    Case(blends_of_tables, drawn_as(((31,), np.float32), ((31,), np.float32),
                                    ((5000,), np.float32)), "table in shared memory, random words"),
)  # fmt: skip
