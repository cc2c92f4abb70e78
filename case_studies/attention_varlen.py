"""Attention forward over sequences of different lengths that lie one behind the other.

`Starts[b]` is the first row of sequence b and `Starts[batch]` the number of rows, for queries and
for keys.  The number of rows is known at launch only: one compiled kernel serves every batch.
Causal tiles of a sequence start with those that see the most keys.
"""

from itertools import pairwise

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""


@tileprof.jit
def attention_varlen(
    Q, K, V, Starts, Key_starts, longest: int, causal: bool = False,
    block_M: int = 128, block_N: int = 128, stages: int = 2, threads: int = 256,
):  # fmt: skip
    """`longest`: the most queries of a sequence; those of a sequence are its last ones."""
    total_rows, total_keys = T.dynamic("total_rows, total_keys")
    heads, dim, groups, ends = T.const("heads, dim, groups, ends")
    Q: T.Tensor((total_rows, heads, dim), T.bfloat16)
    K: T.Tensor((total_keys, groups, dim), T.bfloat16)
    V: T.Tensor((total_keys, groups, dim), T.bfloat16)
    Starts: T.Tensor((ends,), T.int32)
    Key_starts: T.Tensor((ends,), T.int32)
    Out = T.empty((total_rows, heads, dim), T.bfloat16)
    scale = dim**-0.5 * LOG2E

    with T.Kernel(T.ceildiv(longest, block_M), heads, ends - 1, threads=threads) as (bx, head, b):
        Q_shared = T.alloc_shared((block_M, dim), T.bfloat16)
        Out_shared = T.alloc_shared((block_M, dim), T.bfloat16)
        K_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        V_shared = T.alloc_shared((block_N, dim), T.bfloat16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
        output = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        group = head // (heads // groups)
        first = (T.ceildiv(longest, block_M) - 1 - bx if causal else bx) * block_M
        length = Starts[b + 1] - Starts[b]
        keys = Key_starts[b + 1] - Key_starts[b]
        row, key = Starts[b] + first, Key_starts[b]

        if first < length:
            T.copy(Q[row : row + block_M, head, :], Q_shared)
            T.clear(output)
            T.clear(total)
            T.fill(top, LOWEST)
            tiles = T.ceildiv(keys, block_N)
            if causal:
                tiles = T.min(tiles, T.ceildiv(first + keys - length + block_M, block_N))
            for turn in T.Pipelined(tiles, num_stages=stages):
                k = tiles - 1 - turn
                T.copy(K[key + k * block_N : key + (k + 1) * block_N, group, :], K_shared)
                T.copy(V[key + k * block_N : key + (k + 1) * block_N, group, :], V_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j < keys
                    if causal:
                        seen = k * block_N + j <= T.min(first + i, length - 1) + keys - length
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
            # A row that sees no key is 0.
            for i in T.Parallel(block_M):
                factor[i] = 1 / T.max(total[i], 1e-30)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] *= factor[i]
            T.copy(output, Out_shared)
            for i, j in T.Parallel(block_M, dim):
                if first + i < length:
                    Out[row + i, head, j] = Out_shared[i, j]
    return Out


def reference(q, k, v, starts, key_starts, causal: bool) -> np.ndarray:
    """In float64, one sequence after the other."""
    q, k, v = (np.asarray(x, np.float64).transpose(1, 0, 2) for x in (q, k, v))
    k, v = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, v))
    out = np.zeros_like(q)
    for rows, keys in zip(pairwise(starts), pairwise(key_starts)):
        queried, held = slice(*rows), slice(*keys)
        scores = q[:, queried] @ k[:, held].transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        if causal:
            seen = np.tril(np.ones(scores.shape[1:], bool), scores.shape[2] - scores.shape[1])
            scores = np.where(seen, scores, -np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=LOWEST))
            out[:, queried] = np.nan_to_num(e / e.sum(axis=-1, keepdims=True)) @ v[:, held]
    return out.transpose(1, 0, 2)


def inputs(lengths, key_lengths, heads, groups, dim, seed: int = 0) -> list[np.ndarray]:
    """Random queries, keys and values of these sequences, and where they start."""
    generator = np.random.default_rng(seed)
    starts, key_starts = (np.cumsum([0, *n]).astype(np.int32) for n in (lengths, key_lengths))
    shapes = (starts[-1], heads, dim), *[(key_starts[-1], groups, dim)] * 2
    made = [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]
    return [*made, starts, key_starts]


def main(heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    lengths = (200, 1, 130)
    given = inputs(lengths, (200, 77, 300), heads, groups, dim)
    for causal in (False, True):
        out = attention_varlen(*given, longest=max(lengths), causal=causal)
        expected = reference(*given, causal)
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
    print(f"attention of {len(lengths)} sequences: agrees with NumPy, full and causal")


if __name__ == "__main__":
    main()
