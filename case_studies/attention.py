"""Attention forward in bfloat16 on tensor cores: full, causal, or causal in a sliding window, with
fewer heads of keys than of queries (GQA) or as many (MHA).

Scores stay in registers: softmax turns them into the operand of the second product.  The mask is
written once; the compiler runs tiles that all queries of a block see in a loop without it.  Of
causal blocks those with the most tiles come first, for as many heads as have their keys and values
in L2 together.  The compiler multiplies values of a tile under the softmax of the next one.
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
    Q, K, V, causal=False, window: int = 0,
    block_M: int = 128, block_N: int = 128, stages: int = 2, threads: int = 256,
    dtype: str = "bfloat16",
):  # fmt: skip
    """Queries are the last ones: with causal=True the last query sees all keys, with a window the
    last `window` of them."""
    sums, exp2 = (T.float64, T.exp2) if dtype == "float64" else (T.float32, T.__exp2)
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    keys, groups = T.const("keys, groups")
    Q: T.Tensor((batch, length, heads, dim), dtype)
    K: T.Tensor((batch, keys, groups, dim), dtype)
    V: T.Tensor((batch, keys, groups, dim), dtype)
    Out = T.empty((batch, length, heads, dim), dtype)
    Lse = T.empty((batch, heads, length), sums)
    scale = dim**-0.5 * LOG2E
    rows = T.ceildiv(length, block_M)
    near = heads_at_once(heads, heads // groups * L2_BYTES // (4 * keys * dim)) if causal else 1

    with T.Kernel(near, rows, batch * heads // near, threads=threads) as (bx, by, bz):
        Q_shared = T.alloc_shared((block_M, dim), dtype)
        K_shared = T.alloc_shared((block_N, dim), dtype)
        V_shared = T.alloc_shared((block_N, dim), dtype)
        scores = T.alloc_fragment((block_M, block_N), sums)
        weights = T.alloc_fragment((block_M, block_N), dtype)
        output = T.alloc_fragment((block_M, dim), sums)
        top = T.alloc_fragment((block_M,), sums)
        factor = T.alloc_fragment((block_M,), sums)
        total = T.alloc_fragment((block_M,), sums)
        first = (rows - 1 - by if causal else by) * block_M
        b, head = bz // (heads // near), bz % (heads // near) * near + bx
        group = head // (heads // groups)
        ahead = keys - length  # keys before the first query

        T.copy(Q[b, first : first + block_M, head, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        begin, end = 0, T.ceildiv(keys, block_N)
        if causal:
            end = T.min(end, T.ceildiv(first + ahead + block_M, block_N))
            begin = T.max(first + ahead - window + 1, 0) // block_N if window else 0
        for turn in T.Pipelined(end - begin, num_stages=stages):
            k = end - 1 - turn  # the tiles at the diagonal first
            T.copy(K[b, k * block_N : (k + 1) * block_N, group, :], K_shared)
            T.copy(V[b, k * block_N : (k + 1) * block_N, group, :], V_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                last = T.min(first + i, length - 1) + ahead if causal else keys - 1
                seen = k * block_N + j <= last
                if window:
                    seen = T.all_of(seen, k * block_N + j > last - window)
                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(sums))
            T.copy(top, factor)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = exp2((factor[i] - top[i]) * scale)
                total[i] *= factor[i]
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = exp2(T.fma(scores[i, j], scale, -top[i] * scale))
            T.reduce_sum(scores, total, dim=1, clear=False)
            T.copy(scores, weights)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] *= factor[i]
            T.gemm(weights, V_shared, output)
        for i in T.Parallel(block_M):
            Lse[b, head, first + i] = top[i] * scale + T.log2(total[i])
            factor[i] = 1 / total[i]
        for i, j in T.Parallel(block_M, dim):
            output[i, j] *= factor[i]
        T.copy(output, Out[b, first : first + block_M, head, :])
    return Out, Lse


def reference(q, k, v, causal: bool, window: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """In float64: the result, and of every row the logarithm, to base 2, of its sum."""
    q, k, v = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        ahead = scores.shape[-1] - scores.shape[-2]
        seen = np.tril(np.ones(scores.shape[-2:], bool), ahead)
        if window:
            seen = np.triu(seen, ahead - window + 1)
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
    for causal, window in ((False, 0), (True, 0), (True, 100)):
        out, lse = attention(q, k, v, causal=causal, window=window)
        expected, expected_lse = reference(q, k, v, causal, window)
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(lse, expected_lse, rtol=1e-2, atol=1e-2)
    print(f"attention {batch}×{length}×{heads}×{dim}: agrees with NumPy, full, causal, in a window")


if __name__ == "__main__":
    main()
