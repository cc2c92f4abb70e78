"""A sixth set of kernels whose pages were written down before a GPU ran them: rows, tables, images.

An H200 ran them on 2026-11-30 at 03:32 UTC for the first time: 422 of 431 numbers were exact.  The
nine others were in three kernels (docs/show.md).  Since then they are development kernels.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.show_counters.frozen import drawn_as
from benchmarks.show_counters.frozen_sixth_products import SIXTH_PRODUCTS
from benchmarks.show_counters.kernels import Case

_BF16, _E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


@tileprof.jit
def weights_of_classes(X, Class, Sums, part: int = 768):
    """Whole weights added up for each of 40 classes, in shared memory, then for all blocks."""
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Class: T.Tensor((N,), T.int32)
    Sums: T.Tensor((40,), T.int32)
    with T.Kernel(T.ceildiv(N, part), threads=192) as b:
        held = T.alloc_shared((40,), T.int32)
        T.clear(held)
        for j in T.Parallel(part):
            if b * part + j < N:
                T.atomic_add(held[Class[b * part + j]], X[b * part + j])
        for c in T.Parallel(40):
            T.atomic_add(Sums[c], held[c])


@tileprof.jit
def table_of_bytes(X, Table, part: int = 2048):
    """A table of 256 numbers in shared memory, looked up by bytes."""
    N = T.const("N")
    X: T.Tensor((N,), T.uint8)
    Table: T.Tensor((256,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        held = T.alloc_shared((256,), T.float32)
        T.copy(Table, held)
        for j in T.Parallel(part):
            if b * part + j < N:
                Y[b * part + j] = held[T.cast(X[b * part + j], T.int32)]
    return Y


@tileprof.jit
def doubles_turned(X, tile: int = 32):
    """A transpose of doubles through shared memory without padding."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    Y = T.empty((N, M), T.float64)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=256) as (bx, by):
        held = T.alloc_shared((tile, tile), T.float64)
        T.copy(X[by * tile, bx * tile], held)
        for i, j in T.Parallel(tile, tile):
            if bx * tile + i < N and by * tile + j < M:
                Y[bx * tile + i, by * tile + j] = held[j, i]
    return Y


@tileprof.jit
def windows_of_three(X, part: int = 512):
    """Means of three neighbours of a row of halves, from shared memory with two more elements."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N - 2), T.float16)
    with T.Kernel(T.ceildiv(N - 2, part), M, threads=128) as (b, m):
        held = T.alloc_shared((part + 2,), T.float16)
        for j in T.Parallel(part + 2):
            held[j] = T.if_then_else(b * part + j < N, X[m, b * part + j], 0.0)
        for j in T.Parallel(part):
            if b * part + j < N - 2:
                Y[m, b * part + j] = (held[j] + held[j + 1] + held[j + 2]) * T.float16(1 / 3)
    return Y


@tileprof.jit
def kept_by_mask(X, Keep, rows: int = 4):
    """Numbers where a mask of bytes is set, zeros elsewhere."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Keep: T.Tensor((M, N), T.uint8)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, 256), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, 256):
            if by * rows + i < M and bx * 256 + j < N:
                if Keep[by * rows + i, bx * 256 + j] != 0:
                    Y[by * rows + i, bx * 256 + j] = X[by * rows + i, bx * 256 + j]
                else:
                    Y[by * rows + i, bx * 256 + j] = 0.0
    return Y


@tileprof.jit
def columns_picked(X, At, rows: int = 8):
    """The columns that a list names, out of rows of float32."""
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, N), T.float32)
    At: T.Tensor((K,), T.int32)
    Y = T.empty((M, K), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=96) as b:
        for i, j in T.Parallel(rows, K):
            if b * rows + i < M:
                Y[b * rows + i, j] = X[b * rows + i, At[j]]
    return Y


@tileprof.jit
def rows_sent(X, To, rows: int = 16):
    """Rows of 56 halves, each stored at the row that a list names."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    To: T.Tensor((M,), T.int32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, rows), threads=64) as b:
        for i, j in T.Parallel(rows, N):
            if b * rows + i < M:
                Y[To[b * rows + i], j] = X[b * rows + i, j]
    return Y


@tileprof.jit
def quarters_of_bytes(W, Scale, rows: int = 8):
    """Four numbers of two bits out of each byte, times a scale of their row."""
    M, N = T.const("M, N")
    W: T.Tensor((M, N), T.uint8)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N * 4), T.bfloat16)
    with T.Kernel(T.ceildiv(N * 4, 256), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, 256):
            if by * rows + i < M and bx * 256 + j < N * 4:
                byte = T.cast(W[by * rows + i, (bx * 256 + j) // 4], T.int32)
                two = (byte >> ((bx * 256 + j) % 4 * 2)) & 3
                Y[by * rows + i, bx * 256 + j] = T.cast(two - 2, T.float32) * Scale[by * rows + i]
    return Y


@tileprof.jit
def largest_of_four(X, rows: int = 4):
    """Maxima of squares of 2 × 2 pixels, channels last; the last row of blocks is cut."""
    B, H, V, C = T.const("B, H, V, C")
    X: T.Tensor((B, H, V, C), T.bfloat16)
    Y = T.empty((B, H // 2, V // 2, C), T.bfloat16)
    with T.Kernel(V // 2, T.ceildiv(H // 2, rows), B, threads=64) as (x, by, b):
        for i, c in T.Parallel(rows, C):
            y = by * rows + i
            if y < H // 2:
                Y[b, y, x, c] = T.max(
                    T.max(X[b, y * 2, x * 2, c], X[b, y * 2, x * 2 + 1, c]),
                    T.max(X[b, y * 2 + 1, x * 2, c], X[b, y * 2 + 1, x * 2 + 1, c]),
                )
    return Y


@tileprof.jit
def fives_averaged(X, rows: int = 2):
    """Means of groups of five columns, from a tile in shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N // 5), T.float32)
    with T.Kernel(M // rows, threads=128) as b:
        held = T.alloc_shared((rows, N), T.float32)
        T.copy(X[b * rows, 0], held)
        for i, j in T.Parallel(rows, N // 5):
            total = held[i, j * 5] + held[i, j * 5 + 1] + held[i, j * 5 + 2]
            Y[b * rows + i, j] = (total + held[i, j * 5 + 3] + held[i, j * 5 + 4]) * 0.2
    return Y


@tileprof.jit
def eighths_widened(X, Scale, rows: int = 16, columns: int = 96):
    """8-bit floats times a scale of their row, as bfloat16; tiles of 96 columns, cut."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float8_e4m3fn)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        held = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], held)
        for i, j in T.Parallel(rows, columns):
            if by * rows + i < M:
                held[i, j] *= Scale[by * rows + i]
        T.copy(held, Y[by * rows, bx * columns])
    return Y


@tileprof.jit
def sums_along_rows(X, rows: int = 4):
    """Running sums along rows of 160 numbers."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        held = T.alloc_shared((rows, N), T.float32)
        T.copy(X[b * rows, 0], held)
        T.cumsum(held, dim=1)
        T.copy(held, Y[b * rows, 0])
    return Y


@tileprof.jit
def lengths_of_pairs(X, part: int = 320):
    """Lengths of pairs of float32 that lie side by side, an odd number of them."""
    N = T.const("N")
    X: T.Tensor((N, 2), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, part), threads=160) as b:
        for j in T.Parallel(part):
            if b * part + j < N:
                re, im = X[b * part + j, 0], X[b * part + j, 1]
                Y[b * part + j] = T.sqrt(re * re + im * im)
    return Y


@tileprof.jit
def boxes_moved(X, rows: int = 6, columns: int = 10):
    """Boxes of an image with channels last, moved by one pixel to the right and down."""
    H, V, C = T.const("H, V, C")
    X: T.Tensor((H, V, C), T.float16)
    Y = T.empty((H + 1, V + 1, C), T.float16)
    with T.Kernel(T.ceildiv(V, columns), T.ceildiv(H, rows), threads=128) as (bx, by):
        held = T.alloc_shared((rows, columns, C), T.float16)
        T.copy(X[by * rows, bx * columns, 0], held)
        T.copy(held, Y[by * rows + 1, bx * columns + 1, 0])
    return Y


@tileprof.jit
def places_of_largest(X, rows: int = 8):
    """The first place of the largest number of each row of whole numbers of 16 bits."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int16)
    Y = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        held = T.alloc_fragment((rows, N), T.int32)
        top = T.alloc_fragment((rows,), T.int32)
        place = T.alloc_fragment((rows, N), T.int32)
        first = T.alloc_fragment((rows,), T.int32)
        T.copy(X[b * rows, 0], held)
        T.reduce_max(held, top, dim=1)
        for i, j in T.Parallel(rows, N):
            place[i, j] = T.if_then_else(held[i, j] == top[i], j, N)
        T.reduce_min(place, first, dim=1)
        for i in T.Parallel(rows):
            if b * rows + i < M:
                Y[b * rows + i] = first[i]
    return Y


@tileprof.jit
def bytes_reversed(X, part: int = 640):
    """Words of four bytes with their bytes in the other order, two rows a block."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.uint32)
    Y = T.empty((M, N), T.uint32)
    with T.Kernel(T.ceildiv(N, part), T.ceildiv(M, 2), threads=128) as (bx, by):
        for i, j in T.Parallel(2, part):
            if by * 2 + i < M and bx * part + j < N:
                word = X[by * 2 + i, bx * part + j]
                ends = (word >> 24) | (word << 24)
                inner = ((word >> 8) & T.uint32(0xFF00)) | ((word << 8) & T.uint32(0xFF0000))
                Y[by * 2 + i, bx * part + j] = ends | inner
    return Y


@tileprof.jit
def masked_twice(X, Least, rows: int = 4, columns: int = 128):
    """Sums of the numbers of a row above a bound, then these numbers over their sum."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Least: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        kept = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            m = b * rows + i
            kept[i, j] = T.if_then_else(m < M and j < N and X[m, j] > Least[m], X[m, j], 0.0)
        T.reduce_sum(kept, total, dim=1)
        for i, j in T.Parallel(rows, columns):
            if b * rows + i < M and j < N:
                Y[b * rows + i, j] = kept[i, j] / T.max(total[i], 1.0)
    return Y


def _weights(draw):
    return [draw.integers(-9, 10, 5_000, np.int32), draw.integers(0, 40, 5_000, np.int32),
            np.zeros(40, np.int32)]  # fmt: skip


def _sent(draw):
    return [draw.standard_normal((75, 56), np.float32).astype(np.float16),
            draw.permutation(75).astype(np.int32)]  # fmt: skip


FROZEN_SIXTH: tuple[Case, ...] = (
    Case(weights_of_classes, _weights, "sums by atomics in shared memory, 192 threads"),
    Case(table_of_bytes, drawn_as(((9_001,), np.uint8, 0, 256), ((256,), np.float32)),
         "table in shared memory"),
    Case(doubles_turned, drawn_as(((70, 90), np.float64)), "transpose of doubles, cut"),
    Case(windows_of_three, drawn_as(((9, 1_100), np.float16)), "means of three neighbours"),
    Case(kept_by_mask, drawn_as(((30, 600), _BF16), ((30, 600), np.uint8, 0, 2)), "mask of bytes"),
    Case(columns_picked, drawn_as(((45, 200), np.float32), ((72,), np.int32, 0, 200)),
         "columns that a list names, 96 threads"),
    Case(rows_sent, _sent, "rows stored where a list says"),
    Case(quarters_of_bytes, drawn_as(((30, 90), np.uint8, 0, 256), ((30,), np.float32)),
         "numbers of two bits"),
    Case(largest_of_four, drawn_as(((2, 22, 18, 48), _BF16)), "pooling, channels last"),
    Case(fives_averaged, drawn_as(((20, 340), np.float32)), "means of groups of five"),
    Case(eighths_widened, drawn_as(((70, 208), _E4M3), ((70,), np.float32)),
         "8-bit floats widened, cut"),
    Case(sums_along_rows, drawn_as(((41, 160), np.float32)), "running sums of rows"),
    Case(lengths_of_pairs, drawn_as(((4_001, 2), np.float32)), "pairs side by side, 160 threads"),
    Case(boxes_moved, drawn_as(((25, 33, 24), np.float16)), "boxes of three axes"),
    Case(places_of_largest, drawn_as(((50, 96), np.int16, -500, 500)), "places of maxima"),
    Case(bytes_reversed, drawn_as(((7, 1_300), np.uint32, 0, 1 << 32)), "bytes of words reversed"),
    Case(masked_twice, drawn_as(((30, 120), np.float32), ((30,), np.float32)),
         "numbers above a bound"),
    *SIXTH_PRODUCTS,
)  # fmt: skip
