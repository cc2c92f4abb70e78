"""Attention backward: gradients of queries, keys and values from what forward kept.

A block has a tile of keys and values and walks over the queries, whose scores it computes anew,
transposed: so weights and their gradient are operands from registers in the products for values and
keys.  Gradients of queries are added up in memory, in any order, in float32.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
import tileprof.lang as T
from case_studies.attention import attention, inputs

LOG2E = 1.4426950408889634


@tileprof.jit
def row_dots(Out, dOut, dQ_sums, block_M: int = 64, threads: int = 128, dtype: str = "bfloat16"):
    """Of every row of the result its product with its gradient; sums of dQ are cleared."""
    sums = T.float64 if dtype == "float64" else T.float32
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    Out: T.Tensor((batch, length, heads, dim), dtype)
    dOut: T.Tensor((batch, length, heads, dim), dtype)
    dQ_sums: T.Tensor((batch, length, heads, dim), sums)
    Delta = T.empty((batch, heads, length), sums)

    with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, head, b):
        products = T.alloc_fragment((block_M, dim), sums)
        delta = T.alloc_fragment((block_M,), sums)
        for i, j in T.Parallel(block_M, dim):
            at = bx * block_M + i
            products[i, j] = T.cast(Out[b, at, head, j], sums) * T.cast(dOut[b, at, head, j], sums)
            dQ_sums[b, at, head, j] = 0.0
        T.reduce_sum(products, delta, dim=1)
        for i in T.Parallel(block_M):
            Delta[b, head, bx * block_M + i] = delta[i]
    return Delta


@tileprof.jit
def attention_backward(
    Q, K, V, dOut, Lse, Delta, dQ_sums, causal: bool = False,
    block_M: int = 64, block_N: int = 128, stages: int = 2, threads: int = 256,
    dtype: str = "bfloat16",
):  # fmt: skip
    """dK and dV, one for each head of queries; dQ, without its scale, is added to `dQ_sums`."""
    sums, exp2 = (T.float64, T.exp2) if dtype == "float64" else (T.float32, T.__exp2)
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    keys, groups = T.const("keys, groups")
    Q: T.Tensor((batch, length, heads, dim), dtype)
    K: T.Tensor((batch, keys, groups, dim), dtype)
    V: T.Tensor((batch, keys, groups, dim), dtype)
    dOut: T.Tensor((batch, length, heads, dim), dtype)
    Lse: T.Tensor((batch, heads, length), sums)
    Delta: T.Tensor((batch, heads, length), sums)
    dQ_sums: T.Tensor((batch, length, heads, dim), sums)
    dK = T.empty((batch, keys, heads, dim), dtype)
    dV = T.empty((batch, keys, heads, dim), dtype)
    scale = dim**-0.5

    with T.Kernel(T.ceildiv(keys, block_N), heads, batch, threads=threads) as (bx, head, b):
        K_shared = T.alloc_shared((block_N, dim), dtype)
        V_shared = T.alloc_shared((block_N, dim), dtype)
        Q_shared = T.alloc_shared((block_M, dim), dtype)
        dO_shared = T.alloc_shared((block_M, dim), dtype)
        lse = T.alloc_shared((block_M,), sums)
        delta = T.alloc_shared((block_M,), sums)
        dS_shared = T.alloc_shared((block_N, block_M), dtype)
        scores = T.alloc_fragment((block_N, block_M), sums)
        slopes = T.alloc_fragment((block_N, block_M), sums)
        weights = T.alloc_fragment((block_N, block_M), dtype)
        dS = T.alloc_fragment((block_N, block_M), dtype)
        dk = T.alloc_fragment((block_N, dim), sums)
        dv = T.alloc_fragment((block_N, dim), sums)
        dq = T.alloc_fragment((block_M, dim), sums)
        first, ahead = bx * block_N, keys - length

        T.copy(K[b, first : first + block_N, head // (heads // groups), :], K_shared)
        T.copy(V[b, first : first + block_N, head // (heads // groups), :], V_shared)
        T.clear(dk)
        T.clear(dv)
        # Queries before the first key see none of the tile.
        begin = T.max(first - ahead, 0) // block_M if causal else 0
        for turn in T.Pipelined(T.ceildiv(length, block_M) - begin, num_stages=stages):
            m = begin + turn
            T.copy(Q[b, m * block_M : (m + 1) * block_M, head, :], Q_shared)
            T.copy(dOut[b, m * block_M : (m + 1) * block_M, head, :], dO_shared)
            T.copy(Lse[b, head, m * block_M : (m + 1) * block_M], lse)
            T.copy(Delta[b, head, m * block_M : (m + 1) * block_M], delta)
            T.gemm(K_shared, Q_shared, scores, transpose_B=True, clear_accum=True)
            T.gemm(V_shared, dO_shared, slopes, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_N, block_M):
                scores[i, j] = exp2(T.fma(scores[i, j], scale * LOG2E, -lse[j]))
                if causal or length % block_M:
                    seen = j < T.int32(length - m * block_M) if length % block_M else True
                    if causal:
                        seen = T.all_of(seen, i - j <= T.int32(m * block_M + ahead - first))
                    scores[i, j] = T.if_then_else(seen, scores[i, j], 0)
            T.copy(scores, weights)
            T.gemm(weights, dO_shared, dv)
            for i, j in T.Parallel(block_N, block_M):
                dS[i, j] = scores[i, j] * (slopes[i, j] - delta[j])
            T.copy(dS, dS_shared)
            T.gemm(dS, Q_shared, dk)
            T.gemm(dS_shared, K_shared, dq, transpose_A=True, clear_accum=True)
            T.atomic_add(dQ_sums[b, m * block_M : (m + 1) * block_M, head, :], dq)
        for i, j in T.Parallel(block_N, dim):
            dk[i, j] *= scale
        T.copy(dk, dK[b, first : first + block_N, head, :])
        T.copy(dv, dV[b, first : first + block_N, head, :])
    return dK, dV


@tileprof.jit
def rounded(dQ_sums, block: int = 4096, threads: int = 256, dtype: str = "bfloat16"):
    """dQ from its sums: scaled and rounded."""
    sums = T.float64 if dtype == "float64" else T.float32
    rows, dim = T.const("rows, dim")
    dQ_sums: T.Tensor((rows, dim), sums)
    dQ = T.empty((rows, dim), dtype)
    with T.Kernel(T.ceildiv(rows, block // dim), threads=threads) as bx:
        for i, j in T.Parallel(block // dim, dim):
            dQ[bx * (block // dim) + i, j] = dQ_sums[bx * (block // dim) + i, j] * dim**-0.5
    return dQ


def gradients(q, k, v, out, lse, d_out, causal: bool = False) -> list[np.ndarray]:
    """dQ, dK, dV by the three kernels."""
    dq_sums = np.zeros(q.shape, np.float32)
    delta = row_dots(out, d_out, dq_sums)
    made = attention_backward(q, k, v, d_out, lse, delta, dq_sums, causal=causal)
    shared = (x.reshape(*k.shape[:3], -1, k.shape[3]).astype(np.float32).sum(3) for x in made)
    return [rounded(dq_sums.reshape(-1, q.shape[-1])).reshape(q.shape), *shared]


def reference(q, k, v, d_out, causal: bool) -> list[np.ndarray]:
    """dQ, dK, dV in float64."""
    q, k, v, d_out = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k, v, d_out))
    ratio, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    many_k, many_v = (np.repeat(x, ratio, axis=1) for x in (k, v))
    scores = q @ many_k.transpose(0, 1, 3, 2) * scale
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
        scores = np.where(seen, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    slopes = d_out @ many_v.transpose(0, 1, 3, 2)
    ds = weights * (slopes - (weights * slopes).sum(axis=-1, keepdims=True)) * scale
    by_head = ds.transpose(0, 1, 3, 2) @ q, weights.transpose(0, 1, 3, 2) @ d_out
    dk, dv = (x.reshape(*k.shape[:2], ratio, *k.shape[2:]).sum(2) for x in by_head)
    return [x.transpose(0, 2, 1, 3) for x in (ds @ many_k, dk, dv)]


def main(batch: int = 1, length: int = 200, heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    q, k, v = inputs(batch, length, length, heads, groups, dim)
    d_out = inputs(batch, length, length, heads, groups, dim, seed=1)[0]
    for causal in (False, True):
        out, lse = attention(q, k, v, causal=causal)
        found = gradients(q, k, v, out, lse, d_out, causal)
        for each, expected in zip(found, reference(q, k, v, d_out, causal)):
            assert np.linalg.norm(each - expected) < 1e-2 * np.linalg.norm(expected)
    print(f"attention_backward {batch}×{length}×{heads}×{dim}: agrees with NumPy, full and causal")


if __name__ == "__main__":
    main()
