"""A matrix product and attention in the dialect that tileprof and TileLang share, as factories.

`TUNING_SIDE` says which of the two this process imports.  Annotations are evaluated by both where
they stand, so they must not be postponed.
"""

import os

if os.environ.get("TUNING_SIDE") == "tilelang":
    import tilelang.language as T
else:
    from tileprof import lang as T


def gemm(
    M, N, K, block_M=None, block_N=None, block_K=None, num_stages=None, thread_num=None,
    enable_rasteration=None,
):  # fmt: skip
    """A (M x K) times B (N x K) transposed, in bfloat16; tunable as TileLang's example."""
    dtype, accum = "bfloat16", "float32"

    @T.prim_func
    def product(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K), dtype)
            total = T.alloc_fragment((block_M, block_N), accum)
            out = T.alloc_shared((block_M, block_N), dtype)
            T.use_swizzle(panel_size=10, enable=enable_rasteration)
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[bx * block_N, k * block_K], b)
                T.gemm(a, b, total, transpose_B=True)
            T.copy(total, out)
            T.copy(out, C[by * block_M, bx * block_N])

    return product


def attention(
    batch, heads, length, dim, block_M=None, block_N=None, num_stages=None, threads=None
):  # fmt: skip
    """Attention without a mask, in float16."""
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = (batch, length, heads, dim)
    dtype, accum = "float16", "float32"

    @T.prim_func
    def forward(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Output: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_shared((block_M, dim), dtype)
            k_tile = T.alloc_shared((block_N, dim), dtype)
            v_tile = T.alloc_shared((block_N, dim), dtype)
            out = T.alloc_shared((block_M, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), accum)
            weights = T.alloc_fragment((block_M, block_N), dtype)
            total = T.alloc_fragment((block_M, dim), accum)
            most = T.alloc_fragment((block_M,), accum)
            before = T.alloc_fragment((block_M,), accum)
            fade = T.alloc_fragment((block_M,), accum)
            sums = T.alloc_fragment((block_M,), accum)
            norm = T.alloc_fragment((block_M,), accum)
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], q)
            T.fill(total, 0)
            T.fill(norm, 0)
            T.fill(most, -T.infinity(accum))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], k_tile)
                T.clear(scores)
                T.gemm(q, k_tile, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(most, before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    fade[i] = T.exp2(before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - most[i] * scale)
                T.reduce_sum(scores, sums, dim=1)
                for i in T.Parallel(block_M):
                    norm[i] = norm[i] * fade[i] + sums[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    total[i, j] *= fade[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], v_tile)
                T.gemm(weights, v_tile, total, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                total[i, j] /= norm[i]
            T.copy(total, out)
            T.copy(out, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return forward
