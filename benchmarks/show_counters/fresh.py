"""Kernels for a comparison of pages with counters that no GPU has run: windows, triangles, bits.

Nothing is known of their counters: their pages were written down by `--freeze` as they came.
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
def windows_of_signals(X, hop: int = 40, wide: int = 96, frames: int = 4):
    """Windows of 96 samples that begin 40 samples apart, weighed by their place in the window."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, (N - wide) // hop + 1, wide), T.float32)
    with T.Kernel(T.ceildiv((N - wide) // hop + 1, frames), M, threads=96) as (b, m):
        for f, j in T.Parallel(frames, wide):
            if b * frames + f < (N - wide) // hop + 1:
                weight = T.cast(T.min(j, wide - 1 - j), T.float32)
                Y[m, b * frames + f, j] = X[m, (b * frames + f) * hop + j] * weight
    return Y


@tileprof.jit
def bias_by_distance(Table, Score, rows: int = 8, columns: int = 96):
    """Scores plus an entry of a table for each distance of a key from its query."""
    H, L = T.const("H, L")
    Table: T.Tensor((H, L * 2), T.float32)
    Score: T.Tensor((H, L, L), T.float16)
    Y = T.empty((H, L, L), T.float16)
    with T.Kernel(T.ceildiv(L, columns), T.ceildiv(L, rows), H, threads=96) as (bx, by, h):
        for i, j in T.Parallel(rows, columns):
            y = by * rows + i
            x = bx * columns + j
            if y < L and x < L:
                both = T.cast(Score[h, y, x], T.float32) + Table[h, x - y + L]
                Y[h, y, x] = T.cast(both, T.float16)
    return Y


@tileprof.jit
def triangle_unpacked(P, Sign, rows: int = 4, columns: int = 64):
    """A symmetric matrix out of its packed lower half, columns times numbers of their own."""
    N, S = T.const("N, S")
    P: T.Tensor((S,), T.float32)
    Sign: T.Tensor((N,), T.float32)
    Y = T.empty((N, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(N, rows), threads=64) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y = by * rows + i
            x = bx * columns + j
            if y < N and x < N:
                most = T.max(y, x)
                Y[y, x] = P[most * (most + 1) // 2 + T.min(y, x)] * Sign[x]
    return Y


@tileprof.jit
def patches_as_rows(X, side: int = 4, part: int = 64):
    """Squares of 4 × 4 pixels with their three channels as rows of 48 numbers."""
    B, C, H, V = T.const("B, C, H, V")
    X: T.Tensor((B, C, H, V), T.float16)
    Y = T.empty((B, H // side * (V // side), C * side * side), T.float16)
    patches = H // side * (V // side)
    with T.Kernel(T.ceildiv(patches, part), B, threads=128) as (p, b):
        for i, j in T.Parallel(part, C * side * side):
            at = p * part + i
            if at < patches:
                c = j // (side * side)
                y = at // (V // side) * side + j // side % side
                Y[b, at, j] = X[b, c, y, at % (V // side) * side + j % side]
    return Y


@tileprof.jit
def pairs_rotated(X, Cos, Sin, rows: int = 4):
    """Neighbouring numbers of each row rotated into each other, two by two."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Cos: T.Tensor((M, N // 2), T.float32)
    Sin: T.Tensor((M, N // 2), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        for i, j in T.Parallel(rows, N // 2):
            m = b * rows + i
            if m < M:
                one = T.cast(X[m, 2 * j], T.float32)
                two = T.cast(X[m, 2 * j + 1], T.float32)
                Y[m, 2 * j] = T.cast(one * Cos[m, j] - two * Sin[m, j], T.bfloat16)
                Y[m, 2 * j + 1] = T.cast(two * Cos[m, j] + one * Sin[m, j], T.bfloat16)
    return Y


@tileprof.jit
def bits_to_bytes(X, part: int = 128):
    """Each bit of a mask as a byte of its own."""
    N = T.const("N")
    X: T.Tensor((N,), T.uint8)
    Y = T.empty((N, 8), T.uint8)
    with T.Kernel(T.ceildiv(N, part), threads=128) as b:
        for j, k in T.Parallel(part, 8):
            if b * part + j < N:
                bit = (T.cast(X[b * part + j], T.int32) >> k) & 1
                Y[b * part + j, k] = T.cast(bit, T.uint8)
    return Y


@tileprof.jit
def bytes_to_words(X, part: int = 96):
    """A word of 32 bits for each 32 bytes: one bit for each that is not zero."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N, 32), T.uint8)
    Y = T.empty((M, N), T.int32)
    with T.Kernel(T.ceildiv(N, part), M, threads=96) as (b, m):
        for j in T.Parallel(part):
            if b * part + j < N:
                word = T.alloc_local((1,), T.int32)
                word[0] = 0
                for k in T.unroll(32):
                    word[0] |= T.if_then_else(X[m, b * part + j, k] != 0, 1, 0) << k
                Y[m, b * part + j] = word[0]
    return Y


@tileprof.jit
def reversed_to_lengths(X, Length, rows: int = 4):
    """Sequences with their first tokens last, as far as each one goes; the rest stays zero."""
    B, L, N = T.const("B, L, N")
    X: T.Tensor((B, L, N), T.float32)
    Length: T.Tensor((B,), T.int32)
    Y = T.empty((B, L, N), T.float32)
    with T.Kernel(T.ceildiv(L, rows), B, threads=128) as (t, b):
        for i, j in T.Parallel(rows, N):
            at = t * rows + i
            if at < L:
                if at < Length[b]:
                    Y[b, at, j] = X[b, Length[b] - 1 - at, j]
                else:
                    Y[b, at, j] = 0.0
    return Y


@tileprof.jit
def seven_points(X, rows: int = 4, columns: int = 64):
    """The mean of the six neighbours of each point of a volume, edges repeated."""
    D, H, V = T.const("D, H, V")
    X: T.Tensor((D, H, V), T.float32)
    Y = T.empty((D, H, V), T.float32)
    with T.Kernel(T.ceildiv(V, columns), T.ceildiv(H, rows), D, threads=128) as (bx, by, z):
        for j, i in T.Parallel(rows, columns):
            y = by * rows + j
            x = bx * columns + i
            if y < H and x < V:
                deep = X[T.max(z - 1, 0), y, x] + X[T.min(z + 1, D - 1), y, x]
                high = X[z, T.max(y - 1, 0), x] + X[z, T.min(y + 1, H - 1), x]
                wide = X[z, y, T.max(x - 1, 0)] + X[z, y, T.min(x + 1, V - 1)]
                Y[z, y, x] = (deep + high + wide) / 6.0
    return Y


@tileprof.jit
def means_in_time(X, rows: int = 2, wide: int = 5, hop: int = 3):
    """Means of five steps of time, three apart, of sequences with channels last."""
    B, L, C = T.const("B, L, C")
    X: T.Tensor((B, L, C), T.float16)
    Y = T.empty((B, (L - wide) // hop + 1, C), T.float16)
    steps = (L - wide) // hop + 1
    with T.Kernel(T.ceildiv(steps, rows), B, threads=64) as (t, b):
        total = T.alloc_fragment((rows, C), T.float32)
        T.clear(total)
        for k in T.serial(wide):
            for i, c in T.Parallel(rows, C):
                if t * rows + i < steps:
                    total[i, c] += T.cast(X[b, (t * rows + i) * hop + k, c], T.float32)
        for i, c in T.Parallel(rows, C):
            if t * rows + i < steps:
                Y[b, t * rows + i, c] = T.cast(total[i, c] / wide, T.float16)
    return Y


@tileprof.jit
def scales_in_blocks(S, rows: int = 128):
    """Scales of rows in the order that matrix units of blocks of 128 × 4 read them."""
    M, K = T.const("M, K")
    S: T.Tensor((M, K), T.uint8)
    Y = T.empty((M // 128, K // 4, 32, 16), T.uint8)
    with T.Kernel(K // 4, M // rows, threads=128) as (bk, bm):
        for i, j in T.Parallel(rows, 4):
            Y[bm, bk, i % 32, i // 32 * 4 + j] = S[bm * rows + i, bk * 4 + j]
    return Y


@tileprof.jit
def heads_apart(X, Gain, rows: int = 4):
    """Rows of four heads of queries, times a gain, and one each of keys and values, taken apart."""
    M, D = T.const("M, D")
    X: T.Tensor((M, 6 * D), T.bfloat16)
    Gain: T.Tensor((D,), T.bfloat16)
    Q = T.empty((4, M, D), T.bfloat16)
    K = T.empty((M, D), T.bfloat16)
    V = T.empty((M, D), T.bfloat16)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as b:
        for i, h, d in T.Parallel(rows, 6, D):
            m = b * rows + i
            if m < M:
                if h < 4:
                    Q[h, m, d] = X[m, h * D + d] * Gain[d]
                else:
                    if h == 4:
                        K[m, d] = X[m, h * D + d]
                    else:
                        V[m, d] = X[m, h * D + d]
    return Q, K, V


@tileprof.jit
def ends_of_sequences(X, End):
    """The last row of each of many sequences that lie one behind the other, over its length."""
    B, M, N = T.const("B, M, N")
    X: T.Tensor((M, N), T.float16)
    End: T.Tensor((B,), T.int32)
    Y = T.empty((B, N), T.float32)
    with T.Kernel(B, threads=64) as b:
        before = T.if_then_else(b > 0, End[T.max(b - 1, 0)], 0)
        length = End[b] - before
        for j in T.Parallel(N):
            Y[b, j] = T.cast(X[End[b] - 1, j], T.float32) / T.cast(length, T.float32)
    return Y


@tileprof.jit
def experts_of_tiles(X, W, Expert, tile: int = 32, depth: int = 32):
    """A product in which each tile of rows has a matrix of its own, which a list names."""
    M, N, K, E, R = T.const("M, N, K, E, R")
    X: T.Tensor((M, K), T.float16)
    W: T.Tensor((E, K, N), T.float16)
    Expert: T.Tensor((R,), T.int32)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
        x = T.alloc_shared((tile, depth), T.float16)
        w = T.alloc_shared((depth, tile), T.float16)
        y = T.alloc_fragment((tile, tile), T.float32)
        T.clear(y)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(X[by * tile, k * depth], x)
            T.copy(W[Expert[by], k * depth : (k + 1) * depth, bx * tile : (bx + 1) * tile], w)
            T.gemm(x, w, y)
        T.copy(y, Y[by * tile, bx * tile])
    return Y


@tileprof.jit
def scores_of_groups(Q, K, tile: int = 64):
    """Scores of the heads of queries with the keys that four of them share."""
    H, G, L, D = T.const("H, G, L, D")
    Q: T.Tensor((H, L, D), T.bfloat16)
    K: T.Tensor((G, L, D), T.bfloat16)
    S = T.empty((H, L, L), T.float32)
    with T.Kernel(T.ceildiv(L, tile), T.ceildiv(L, tile), H, threads=128) as (bx, by, h):
        q = T.alloc_shared((tile, D), T.bfloat16)
        k = T.alloc_shared((tile, D), T.bfloat16)
        s = T.alloc_fragment((tile, tile), T.float32)
        T.copy(Q[h, by * tile : (by + 1) * tile, :], q)
        T.copy(K[h // (H // G), bx * tile : (bx + 1) * tile, :], k)
        T.gemm(q, k, s, transpose_B=True, clear_accum=True)
        T.copy(s, S[h, by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile])
    return S


@tileprof.jit
def gates_of_rows(X, W, V, rows: int = 64, columns: int = 32, depth: int = 32):
    """A product that a second one of the same rows lets through, both from one tile of rows."""
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((K, N), T.bfloat16)
    V: T.Tensor((K, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        x = T.alloc_shared((rows, depth), T.bfloat16)
        w = T.alloc_shared((depth, columns), T.bfloat16)
        v = T.alloc_shared((depth, columns), T.bfloat16)
        up = T.alloc_fragment((rows, columns), T.float32)
        gate = T.alloc_fragment((rows, columns), T.float32)
        T.clear(up)
        T.clear(gate)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[by * rows, k * depth], x)
            T.copy(W[k * depth, bx * columns], w)
            T.copy(V[k * depth, bx * columns], v)
            T.gemm(x, w, up)
            T.gemm(x, v, gate)
        for i, j in T.Parallel(rows, columns):
            up[i, j] = up[i, j] * T.sigmoid(gate[i, j])
        T.copy(up, Y[by * rows, bx * columns])
    return Y


def _ends(draw):
    ends = np.sort(draw.choice(np.arange(1, 400), 30, replace=False)).astype(np.int32)
    return [*drawn_as(((400, 136), np.float16))(draw), ends]


FRESH: tuple[Case, ...] = (
    Case(windows_of_signals, drawn_as(((3, 1_000), np.float32)), "windows that overlap"),
    Case(bias_by_distance, drawn_as(((3, 240), np.float32), ((3, 120, 120), np.float16)),
         "scores with a bias by distance"),
    Case(triangle_unpacked, drawn_as(((5_050,), np.float32), ((100,), np.float32)),
         "matrix out of its packed half"),
    Case(patches_as_rows, drawn_as(((2, 3, 40, 44), np.float16)), "patches of an image as rows"),
    Case(pairs_rotated, drawn_as(((31, 160), _BF16), ((31, 80), np.float32),
                                 ((31, 80), np.float32)), "neighbours rotated"),
    Case(bits_to_bytes, drawn_as(((1_001,), np.uint8, 0, 256)), "bits as bytes"),
    Case(bytes_to_words, drawn_as(((3, 200, 32), np.uint8, 0, 2)), "bytes as bits of words"),
    Case(reversed_to_lengths, drawn_as(((6, 50, 72), np.float32), ((6,), np.int32, 1, 50)),
         "sequences backwards"),
    Case(seven_points, drawn_as(((5, 22, 100), np.float32)), "six neighbours in a volume"),
    Case(means_in_time, drawn_as(((4, 61, 96), np.float16)), "means of five steps of time"),
    Case(scales_in_blocks, drawn_as(((384, 24), np.uint8, 0, 256)), "scales in the unit's order"),
    Case(heads_apart, drawn_as(((45, 384), _BF16), ((64,), _BF16)), "queries, keys, values apart"),
    Case(ends_of_sequences, _ends, "last rows of sequences"),
    Case(experts_of_tiles, drawn_as(((150, 96), np.float16), ((4, 96, 80), np.float16),
                                    ((5,), np.int32, 0, 4)), "product by the list of experts"),
    Case(scores_of_groups, drawn_as(((8, 100, 64), _BF16), ((2, 100, 64), _BF16)),
         "scores of heads that share keys"),
    Case(gates_of_rows, drawn_as(((100, 136), _BF16), ((136, 72), _BF16), ((136, 72), _BF16)),
         "two products, one a gate"),
)  # fmt: skip
