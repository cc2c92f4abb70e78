"""Kernels whose insides are measured: attention and softmax with scopes, delays of known length.

The products, softmax without scopes and the int4 product are those of `gpu_kernels.py`.
"""

import tileprof
import tileprof.lang as T


@tileprof.jit(out_idx=[3])
def attention(batch, heads, length, dim, causal, block_M=128, block_N=128, stages=2, threads=256):
    """softmax(Q Kᵀ / √dim) V, each (batch, length, heads, dim) in bf16."""
    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e): exponentials are taken to base 2
    shape = (batch, length, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, T.bfloat16),
        K: T.Tensor(shape, T.bfloat16),
        V: T.Tensor(shape, T.bfloat16),
        Output: T.Tensor(shape, T.bfloat16),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), T.bfloat16)
            K_shared = T.alloc_shared((block_N, dim), T.bfloat16)
            V_shared = T.alloc_shared((block_N, dim), T.bfloat16)
            scores = T.alloc_fragment((block_M, block_N), T.float32)
            weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
            output = T.alloc_fragment((block_M, dim), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)
            top_before = T.alloc_fragment((block_M,), T.float32)
            correction = T.alloc_fragment((block_M,), T.float32)
            tile_sum = T.alloc_fragment((block_M,), T.float32)
            row_sum = T.alloc_fragment((block_M,), T.float32)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(output, 0)
            T.fill(row_sum, 0)
            T.fill(top, -T.infinity(T.float32))
            all_tiles = T.ceildiv(length, block_N)
            tiles = (
                T.min(all_tiles, T.ceildiv((bx + 1) * block_M, block_N)) if causal else all_tiles
            )
            for k in T.Pipelined(tiles, num_stages=stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                with T.scope("scores"):
                    if causal:
                        for i, j in T.Parallel(block_M, block_N):
                            visible = bx * block_M + i >= k * block_N + j
                            scores[i, j] = T.if_then_else(visible, 0, -T.infinity(T.float32))
                    else:
                        T.clear(scores)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                with T.scope("softmax"):
                    T.copy(top, top_before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        correction[i] = T.exp2((top_before[i] - top[i]) * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                    T.reduce_sum(scores, tile_sum, dim=1)
                    for i in T.Parallel(block_M):
                        row_sum[i] = row_sum[i] * correction[i] + tile_sum[i]
                    T.copy(scores, weights)
                with T.scope("values"):
                    for i, j in T.Parallel(block_M, dim):
                        output[i, j] *= correction[i]
                    T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                    T.gemm(weights, V_shared, output)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] /= row_sum[i]
            T.copy(output, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


@tileprof.jit
def softmax(X, threads: int = 256):
    """Of each row, with a scope around each step."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(M, threads=threads) as row:
        x = T.alloc_fragment((1, N), T.bfloat16)
        e = T.alloc_fragment((1, N), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)

        with T.scope("load"):
            T.copy(X[row, 0], x)
        with T.scope("top"):
            T.reduce_max(x, top, dim=1)
        with T.scope("exponentials"):
            for i, j in T.Parallel(1, N):
                e[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
        with T.scope("total"):
            T.reduce_sum(e, total, dim=1)
        with T.scope("write"):
            for i, j in T.Parallel(1, N):
                Y[row + i, j] = e[i, j] / total[i]
    return Y


@tileprof.jit
def delayed(X, before: int = 25, inside: int = 250, visits: int = 64, threads: int = 128):
    """A chain of `inside` dependent operations in a scope, after one of `before` outside of it.

    Each is four exponentials: beside them a turn of the loop, whose time depends on where its code
    lies, takes little.
    """
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)

    with T.Kernel(T.ceildiv(N, threads), threads=threads) as block:
        x = T.alloc_fragment((threads,), T.float32)
        T.copy(X[block * threads], x)
        for _ in T.serial(visits):
            for _ in T.serial(before):
                for i in T.Parallel(threads):
                    x[i] = T.exp2(-T.exp2(-T.exp2(-T.exp2(-x[i]))))
            with T.scope("delay"):
                for _ in T.serial(inside):
                    for i in T.Parallel(threads):
                        x[i] = T.exp2(-T.exp2(-T.exp2(-T.exp2(-x[i]))))
        T.copy(x, Y[block * threads])
    return Y
