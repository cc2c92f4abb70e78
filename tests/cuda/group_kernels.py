# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels whose one warp group computes, for the tests of producers, stages and blocks."""

import tileprof
import tileprof.lang as T

ROWS = 64


@tileprof.jit
def product(A, B, rows: int = ROWS, stages: int = 1, threads: int = 128, columns: int = 64):
    """A · Bᵀ, a tile a block."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // columns, M // rows, threads=threads) as (bx, by):
        a = T.alloc_shared((rows, 64), T.float16)
        b = T.alloc_shared((columns, 64), T.float16)
        c = T.alloc_fragment((rows, columns), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=stages):
            T.copy(A[by * rows, k * 64], a)
            T.copy(B[bx * columns, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * rows, bx * columns])
    return C


@tileprof.jit
def sparse_product(A, B, Mask, stages: int = 2):
    """A · Bᵀ over the parts of K that the mask of a block has."""
    M, N, K, P = T.const("M, N, K, P")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    Mask: T.Tensor((M // ROWS, P), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 64, M // ROWS, threads=128) as (bx, by):
        a = T.alloc_shared((ROWS, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((ROWS, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=stages):
            if Mask[by, k] > 0:
                T.copy(A[by * ROWS, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * ROWS, bx * 64])
    return C


@tileprof.jit
def masked_product(A, B, Mask, changed: bool = False):
    """As `sparse_product`, with the block's row of the mask in registers first; `changed` there."""
    M, N, K, P = T.const("M, N, K, P")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    Mask: T.Tensor((M // ROWS, P), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 64, M // ROWS, threads=128) as (bx, by):
        a = T.alloc_shared((ROWS, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((ROWS, 64), T.float32)
        mask = T.alloc_fragment((P,), T.int32)
        T.copy(Mask[by, :], mask)
        if changed:
            for i in T.Parallel(P):
                mask[i] = 1 - mask[i]
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            if mask[k] > 0:
                T.copy(A[by * ROWS, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * ROWS, bx * 64])
    return C


@tileprof.jit
def chained(Q, K, V, threads: int = 128, by_columns: bool = False):
    """(Q · Kᵀ) · V, whose two sums need 256 registers of the threads of one warp group."""
    N = T.const("N")
    Q: T.Tensor((128, 64), T.float16)
    K: T.Tensor((N, 64), T.float16)
    V: T.Tensor((N, 128), T.float16)
    C = T.empty((128, 128), T.float32)
    policy = T.GemmWarpPolicy.FullCol if by_columns else T.GemmWarpPolicy.FullRow
    with T.Kernel(1, threads=threads):
        q = T.alloc_shared((128, 64), T.float16)
        k_tile = T.alloc_shared((128, 64), T.float16)
        v_tile = T.alloc_shared((128, 128), T.float16)
        scores = T.alloc_fragment((128, 128), T.float32)
        cast = T.alloc_fragment((128, 128), T.float16)
        out = T.alloc_fragment((128, 128), T.float32)
        T.copy(Q[0, 0], q)
        T.clear(out)
        for k in T.Pipelined(N // 128, num_stages=1):
            T.copy(K[k * 128, 0], k_tile)
            T.gemm(q, k_tile, scores, transpose_B=True, clear_accum=True, policy=policy)
            T.copy(scores, cast)
            T.copy(V[k * 128, 0], v_tile)
            T.gemm(cast, v_tile, out, policy=policy)
        T.copy(out, C[0, 0])
    return C


@tileprof.jit
def scaled_product(A, B, Scale, stages: int = 1):
    """A · Bᵀ, each part of K times factors of the rows that threads load themselves."""
    M, N, K, P = T.const("M, N, K, P")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    Scale: T.Tensor((P, M), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 64, M // 64, threads=256) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        factor = T.alloc_shared((64,), T.float32)
        part = T.alloc_fragment((64, 64), T.float32)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=stages):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 64, k * 64], b)
            for i in T.Parallel(64):
                factor[i] = Scale[k, by * 64 + i]
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                c[i, j] += part[i, j] * factor[i]
        T.copy(c, C[by * 64, bx * 64])
    return C


@tileprof.jit
def part_stored(A, B, first: int, count: int):
    """Some rows of A · Bᵀ."""
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((count, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        kept = T.alloc_shared((count, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.copy(c[first : first + count, :], kept)
        T.copy(kept, C)
    return C


@tileprof.jit
def part_loaded(A, B, D, first: int, count: int):
    """A · Bᵀ, which begins with D in some rows."""
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    D: T.Tensor((count, 64), T.float32)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.copy(D, c[first : first + count, :])
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C)
    return C


@tileprof.jit
def carried(A, B, D, G, state: int = 64, stages: int = 1):
    """A state that goes from chunk to chunk: of each, A · state + D is stored, and B · of it added.

    The tile of D is loaded, written again and stored; that of G, if any, is not to be by TMA.
    """
    S = T.const("S")
    A: T.Tensor((S, state), T.float16)
    B: T.Tensor((S, state), T.float16)
    D: T.Tensor((S, 32), T.float16)
    G: T.Tensor((S, 2), T.float32)
    E = T.empty((S, 32), T.float16)
    H = T.empty((state, 32), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, state), T.float16)
        b = T.alloc_shared((64, state), T.float16)
        d = T.alloc_shared((64, 32), T.float16)
        g = T.alloc_shared((64,), T.float32)
        h_shared = T.alloc_shared((state, 32), T.float16)
        h = T.alloc_fragment((state, 32), T.float32)
        more = T.alloc_fragment((state, 32), T.float32)
        e = T.alloc_fragment((64, 32), T.float32)
        given = T.alloc_fragment((64, 32), T.float32)
        T.clear(h)
        for s in T.Pipelined(S // 64, num_stages=stages):
            T.copy(h, h_shared)
            T.copy(A[s * 64, 0], a)
            T.gemm(a, h_shared, e, clear_accum=True)
            T.copy(G[s * 64 : s * 64 + 64, 1], g, disable_tma=True)
            T.copy(D[s * 64, 0], d)
            T.copy(d, given)
            for i, j in T.Parallel(64, 32):
                e[i, j] = e[i, j] * g[i] + given[i, j]
            T.copy(e, d)
            T.copy(d, E[s * 64, 0])
            T.copy(B[s * 64, 0], b)
            T.gemm(b, d, more, transpose_A=True, clear_accum=True)
            for i, j in T.Parallel(state, 32):
                h[i, j] = more[i, j] - h[i, j]
        T.copy(h, H)
    return E, H


@tileprof.jit
def recurrence(K, W, H0, H, V, changed: bool = True, kept: bool = False):
    """States of a recurrence: H[i + 1] = H[i] + K[i]ᵀ · c · V[i], where V[i] = W[i] · H[i] and c is
    2 where it is `changed`, otherwise 1; a block has 32 columns; `kept`: the tile of V is stored
    before it is filled."""
    N, C = T.const("N, C")
    K: T.Tensor((N * 64, 64), T.float16)
    W: T.Tensor((N * 64, 64), T.float16)
    H0: T.Tensor((64, C * 32), T.float16)
    H: T.Tensor((N * 64, C * 32), T.float16)
    V: T.Tensor((N * 64, C * 32), T.float16)
    with T.Kernel(C, threads=128) as c:
        h = T.alloc_fragment((64, 32), T.float32)
        h_shared = T.alloc_shared((64, 32), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        k = T.alloc_shared((64, 64), T.float16)
        v = T.alloc_fragment((64, 32), T.float32)
        v_shared = T.alloc_shared((64, 32), T.float16)
        T.copy(H0[0, c * 32], h_shared)
        T.copy(h_shared, h)
        if kept:
            T.copy(h, v_shared)
        for i in T.Pipelined(N, num_stages=2):
            T.copy(h_shared, H[i * 64, c * 32])
            if kept:
                T.copy(v_shared, V[i * 64, c * 32])
            T.copy(W[i * 64, 0], w)
            T.gemm(w, h_shared, v, clear_accum=True)
            T.copy(v, v_shared)
            if not kept:
                T.copy(v_shared, V[i * 64, c * 32])
            T.copy(K[i * 64, 0], k)
            if changed:
                for m, n in T.Parallel(64, 32):
                    v[m, n] *= 2
            T.copy(v, v_shared)
            T.gemm(k, v_shared, h, transpose_A=True)
            T.copy(h, h_shared)
