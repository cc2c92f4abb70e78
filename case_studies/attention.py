"""Attention forward in bfloat16 on tensor cores: full or causal, with fewer heads of keys than of
queries (GQA) or as many (MHA).

Scores stay in registers: softmax turns them into the operand of the second product.  Tiles of keys
that every query of the block sees come first and take no mask; those at the diagonal and at the end
of the sequence follow in a loop of their own.  Causal blocks with the most tiles come first, of as
many heads as have their keys and values in L2 together.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634
"""Exponentials are taken to base 2."""
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""

L2_BYTES = 32 << 20
"""Of L2, for keys and values."""


def heads_at_once(heads: int, most: int) -> int:
    """The largest divisor of the number of heads up to `most`."""
    return next(n for n in range(max(1, min(heads, most)), 0, -1) if heads % n == 0)


@tileprof.jit
def attention(
    Q, K, V, causal=False, block_M: int = 128, block_N: int = 128, stages=2, threads: int = 256
):
    """Queries are the last ones: with causal=True the last query sees all keys."""
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    keys, groups = T.const("keys, groups")
    Q: T.Tensor((batch, length, heads, dim), T.bfloat16)
    K: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    V: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    Out = T.empty((batch, length, heads, dim), T.bfloat16)
    Lse = T.empty((batch, heads, length), T.float32)
    scale = dim**-0.5 * LOG2E
    rows = T.ceildiv(length, block_M)
    near = heads_at_once(heads, heads // groups * L2_BYTES // (4 * keys * dim)) if causal else 1

    with T.Kernel(near, rows, batch * heads // near, threads=threads) as (bx, by, bz):
        Q_shared = T.alloc_shared((block_M, dim), T.bfloat16)
        K_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        V_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
        output = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        first = (rows - 1 - by if causal else by) * block_M
        b, head = bz // (heads // near), bz % (heads // near) * near + bx
        group = head // (heads // groups)
        ahead = keys - length  # keys before the first query

        @T.macro
        def step(k, masked):
            T.copy(K[b, k * block_N : (k + 1) * block_N, group, :], K_shared)
            T.copy(V[b, k * block_N : (k + 1) * block_N, group, :], V_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            if masked:
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j < keys
                    if causal:  # which also keeps off what lies beyond the last key
                        seen = k * block_N + j <= T.min(first + i, length - 1) + ahead
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

        T.copy(Q[b, first : first + block_M, head, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        whole, tiles = keys // block_N, T.ceildiv(keys, block_N)
        if causal:
            whole = T.min(whole, (first + ahead + 1) // block_N)
            tiles = T.min(tiles, T.ceildiv(first + ahead + block_M, block_N))
        for k in T.Pipelined(whole, num_stages=stages):
            step(k, False)
        if causal or keys % block_N:
            for k in T.Pipelined(tiles - whole, num_stages=stages):
                step(whole + k, True)
        for i in T.Parallel(block_M):
            Lse[b, head, first + i] = top[i] * scale + T.log2(total[i])
            factor[i] = 1 / total[i]
        for i, j in T.Parallel(block_M, dim):
            output[i, j] *= factor[i]
        T.copy(output, Out[b, first : first + block_M, head, :])
    return Out, Lse


def reference(q, k, v, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """In float64: the result, and of every row the logarithm, to base 2, of its sum."""
    q, k, v = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(axis=-1, keepdims=True)
    lse = (top + np.log(total))[..., 0] * LOG2E
    return (e / total @ v).transpose(0, 2, 1, 3), lse


def inputs(batch, length, keys, heads, groups, dim, seed: int = 0) -> list[np.ndarray]:
    """Random queries, keys and values."""
    generator = np.random.default_rng(seed)
    shapes = (batch, length, heads, dim), *[(batch, keys, groups, dim)] * 2
    return [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]


def main(batch: int = 1, length: int = 300, heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    q, k, v = inputs(batch, length, length, heads, groups, dim)
    for causal in (False, True):
        out, lse = attention(q, k, v, causal=causal)
        expected, expected_lse = reference(q, k, v, causal)
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(lse, expected_lse, rtol=1e-2, atol=1e-2)
    print(f"attention {batch}×{length}×{heads}×{dim}: agrees with NumPy, full and causal")


if __name__ == "__main__":
    main()
