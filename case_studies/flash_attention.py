"""Attention forward without ever storing the score matrix: softmax is kept up to date tile by tile.

For each block of queries, the running maximum and sum of every row are corrected whenever a tile of
keys brings a larger score.  Causal masking skips the tiles above the diagonal.
"""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit(out_idx=[3])
def flash_attention(batch, heads, length, dim, causal, block_M=64, block_N=64, num_stages=2):
    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e): exponentials are taken to base 2
    shape = (batch, length, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, T.float32),
        K: T.Tensor(shape, T.float32),
        V: T.Tensor(shape, T.float32),
        Output: T.Tensor(shape, T.float32),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), T.float32)
            K_shared = T.alloc_shared((block_N, dim), T.float32)
            V_shared = T.alloc_shared((block_N, dim), T.float32)
            scores = T.alloc_fragment((block_M, block_N), T.float32)
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
            for k in T.Pipelined(tiles, num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                with T.scope("scores"):
                    for i, j in T.Parallel(block_M, block_N):
                        visible = k * block_N + j < length
                        if causal:
                            visible = T.all_of(visible, bx * block_M + i >= k * block_N + j)
                        scores[i, j] = T.if_then_else(visible, 0, -T.infinity(T.float32))
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                with T.scope("softmax"):
                    T.copy(top, top_before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        correction[i] = T.exp2((top_before[i] - top[i]) * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                    T.reduce_sum(scores, tile_sum, dim=1)
                    for i in T.Parallel(block_M):
                        row_sum[i] = row_sum[i] * correction[i] + tile_sum[i]
                with T.scope("values"):
                    for i, j in T.Parallel(block_M, dim):
                        output[i, j] *= correction[i]
                    T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                    T.gemm(scores, V_shared, output)

            for i, j in T.Parallel(block_M, dim):
                output[i, j] /= row_sum[i]
            T.copy(output, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], dtype=bool)), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def main(batch: int = 2, heads: int = 4, length: int = 500, dim: int = 64, repeat: int = 3) -> None:
    generator = np.random.default_rng(0)
    q, k, v = (
        generator.standard_normal((batch, length, heads, dim), dtype=np.float32) for _ in range(3)
    )
    for causal in (False, True):
        kernel = flash_attention(batch, heads, length, dim, causal)
        with tileprof.scope("causal" if causal else "full"):
            expected = reference(q, k, v, causal)
            for _ in range(repeat):
                np.testing.assert_allclose(kernel(q, k, v), expected, rtol=1e-4, atol=1e-5)
    print(f"flash_attention {batch}×{length}×{heads}×{dim}: agrees with NumPy, full and causal")


if __name__ == "__main__":
    main()
