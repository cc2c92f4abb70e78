"""Attention forward with softmax under a matrix product: the loop of `attention.py`, values one
turn late.

Scores of tile k are multiplied, then the values of tile k − 1, and while these are under way the
softmax of tile k is computed.  Here that is written by hand, in loops that load tiles in turn.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
import tileprof.lang as T
from case_studies.attention import L2_BYTES, LOG2E, LOWEST, heads_at_once, inputs, reference


@tileprof.jit
def attention_overlapped(Q, K, V, causal=False, block_M: int = 128, block_N: int = 128, stages=2):
    batch, length, heads, dim, keys, groups = T.const("batch, length, heads, dim, keys, groups")
    Q: T.Tensor((batch, length, heads, dim), T.bfloat16)
    K: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    V: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    Out = T.empty((batch, length, heads, dim), T.bfloat16)
    scale = dim**-0.5 * LOG2E
    rows = T.ceildiv(length, block_M)
    near = heads_at_once(heads, heads // groups * L2_BYTES // (4 * keys * dim)) if causal else 1

    with T.Kernel(near, rows, batch * heads // near, threads=256) as (bx, by, bz):
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
        group, ahead = head // (heads // groups), keys - length

        def multiply(k):
            T.copy(K[b, k * block_N : (k + 1) * block_N, group, :], K_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)

        def values(k):
            T.copy(V[b, k * block_N : (k + 1) * block_N, group, :], V_shared)
            T.gemm(weights, V_shared, output)

        @T.macro
        def softmax(k, masked):
            if masked:
                for i, j in T.Parallel(block_M, block_N):
                    last = T.min(first + i, length - 1) + ahead if causal else keys - 1
                    if k * block_N + j > last:
                        scores[i, j] = -T.infinity(T.float32)
            T.copy(top, factor)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = T.__exp2((factor[i] - top[i]) * scale)
                total[i] *= factor[i]
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.__exp2(T.fma(scores[i, j], scale, -top[i] * scale))
            T.reduce_sum(scores, total, dim=1, clear=False)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] *= factor[i]
            T.copy(scores, weights)

        T.copy(Q[b, first : first + block_M, head, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        whole, tiles = keys // block_N, T.ceildiv(keys, block_N)
        if causal:
            whole = T.min(whole, (first + ahead + 1) // block_N)
            tiles = T.min(tiles, T.ceildiv(first + ahead + block_M, block_N))
        for k in T.Pipelined(T.min(tiles, 1), num_stages=stages):
            multiply(k)
            softmax(k, causal or keys < block_N)
        for k in T.Pipelined(T.max(whole - 1, 0), num_stages=stages):
            multiply(k + 1)
            values(k)
            softmax(k + 1, False)
        start = T.max(whole, 1)
        for k in T.Pipelined(tiles - start, num_stages=stages):
            multiply(start + k)
            values(start + k - 1)
            softmax(start + k, True)
        for k in T.Pipelined(T.min(tiles, 1), num_stages=stages):
            values(tiles - 1 + k)
        for i in T.Parallel(block_M):
            factor[i] = 1 / total[i]
        for i, j in T.Parallel(block_M, dim):
            output[i, j] *= factor[i]
        T.copy(output, Out[b, first : first + block_M, head, :])
    return Out


def main(batch: int = 1, length: int = 300, heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    given = inputs(batch, length, length, heads, groups, dim)
    for causal in (False, True):
        out, expected = attention_overlapped(*given, causal=causal), reference(*given, causal)[0]
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
    print(f"attention_overlapped {batch}×{length}×{heads}×{dim}: agrees with NumPy")


if __name__ == "__main__":
    main()
