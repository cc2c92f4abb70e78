"""Block-sparse attention: for every tile of queries a list of the tiles of keys that it looks at.

`Counts` and `Tiles` are the compressed form of a mask over tiles, so that a block loops over what
there is and loads ahead past what there is not.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""


@tileprof.jit
def sparse_attention(
    Q, K, V, Counts, Tiles, block_M: int = 128, block_N: int = 128, stages=2, threads: int = 256
):
    """`Tiles[b, head, m, :Counts[b, head, m]]`: numbers of tiles of keys, in any order."""
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    keys, groups, rows, most = T.const("keys, groups, rows, most")
    Q: T.Tensor((batch, length, heads, dim), T.bfloat16)
    K: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    V: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    Counts: T.Tensor((batch, heads, rows), T.int32)
    Tiles: T.Tensor((batch, heads, rows, most), T.int32)
    Out = T.empty((batch, length, heads, dim), T.bfloat16)
    scale = dim**-0.5 * LOG2E

    with T.Kernel(rows, heads, batch, threads=threads) as (m, head, b):
        Q_shared = T.alloc_shared((block_M, dim), T.bfloat16)
        K_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        V_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
        output = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        group = head // (heads // groups)

        T.copy(Q[b, m * block_M : (m + 1) * block_M, head, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        for turn in T.Pipelined(Counts[b, head, m], num_stages=stages):
            first = Tiles[b, head, m, turn] * block_N
            T.copy(K[b, first : first + block_N, group, :], K_shared)
            T.copy(V[b, first : first + block_N, group, :], V_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            if keys % block_N:
                for i, j in T.Parallel(block_M, block_N):
                    seen = first + j < keys
                    scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            T.copy(top, factor)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = T.__exp2((factor[i] - top[i]) * scale)
                total[i] *= factor[i]
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.__exp2(T.fma(scores[i, j], scale, -top[i] * scale))
            T.reduce_sum(scores, total, dim=1, clear=False)
            T.copy(scores, weights)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] *= factor[i]
            T.gemm(weights, V_shared, output)
        # Rows that look at nothing are 0.
        for i in T.Parallel(block_M):
            factor[i] = 1 / T.max(total[i], 1e-30)
        for i, j in T.Parallel(block_M, dim):
            output[i, j] *= factor[i]
        T.copy(output, Out[b, m * block_M : (m + 1) * block_M, head, :])
    return Out


def lists(mask: np.ndarray) -> list[np.ndarray]:
    """Counts and tiles of a mask (batch, heads, tiles of queries, tiles of keys)."""
    order = np.argsort(~mask, axis=-1, kind="stable")
    return [mask.sum(axis=-1).astype(np.int32), order.astype(np.int32)]


def reference(q, k, v, mask, block_M: int = 128, block_N: int = 128) -> np.ndarray:
    """In float64."""
    q, k, v = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    seen = np.repeat(np.repeat(mask, block_M, axis=2), block_N, axis=3)
    scores = np.where(seen[..., : q.shape[2], : k.shape[2]], scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=LOWEST))
    total = e.sum(axis=-1, keepdims=True)
    return (e / np.where(total > 0, total, 1) @ v).transpose(0, 2, 1, 3)


def inputs(batch, length, heads, groups, dim, share=0.5, block: int = 128, seed: int = 0):
    """Random queries, keys and values, and a mask that keeps such a share of the tiles."""
    generator = np.random.default_rng(seed)
    shapes = (batch, length, heads, dim), *[(batch, length, groups, dim)] * 2
    made = [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]
    tiles = -(-length // block)
    return [*made, generator.random((batch, heads, tiles, tiles)) < share]


def main(batch: int = 1, length: int = 500, heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    q, k, v, mask = inputs(batch, length, heads, groups, dim)
    out = sparse_attention(q, k, v, *lists(mask)).astype(np.float32)
    np.testing.assert_allclose(out, reference(q, k, v, mask), rtol=2e-2, atol=2e-2)
    print(f"sparse_attention {batch}×{length}×{heads}×{dim}: agrees with NumPy")


if __name__ == "__main__":
    main()
