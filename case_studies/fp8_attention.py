"""Attention forward with float8 queries, keys and values, and a scale for each head of them.

Tensor cores take operands of 8 bits only with the summed dimension side by side: values come
transposed, keys last.  Weights are rounded to float8 before the second product, as multiples of
2⁻⁸, so that small ones keep bits too; what they are divided by is the sum of those not rounded.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634
"""Exponentials are taken to base 2."""
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""
LARGEST = 448.0
"""Largest finite number of float8_e4m3."""
SHIFT = 8
"""Weights are up to 2⁸ when they are rounded; float8 has normal numbers down to 2⁻⁶ and a few more
below: what is lost weighs less than 2⁻¹⁷ of the largest."""
ROUNDS = 12582912.0
"""1.5 * 2²³: a float32 has no places behind the point at this size."""
POLYNOMIAL = (1.0004431, 0.703448, 0.23842891)
"""Coefficients of 2ˣ between -1/2 and 1/2, within 1/500."""
LIMIT = 4e-2
"""Largest relative error against exact arithmetic on the same numbers: weights keep 4 bits, so each
is wrong by up to 1/16, and by 1/40 in the quadratic mean."""


def nearest(x):
    """Return the nearest float8; its largest number for what is too large, as hardware does."""
    return T.if_then_else(x > LARGEST, LARGEST, T.if_then_else(x < -LARGEST, -LARGEST, x))


def exp2_by_sums(x):
    """Return 2ˣ within 1/500 for x > -126 by multiply-adds, and less than 2⁻¹²⁵ for smaller x: the
    whole part goes to the exponent, a polynomial gives the rest."""
    x = T.max(x, -126.0)
    shifted = x + ROUNDS
    rest = x - (shifted - ROUNDS)
    power = T.fma(T.fma(POLYNOMIAL[2], rest, POLYNOMIAL[1]), rest, POLYNOMIAL[0])
    exponent = T.reinterpret(shifted, T.int32) << 23
    return T.reinterpret(T.reinterpret(power, T.int32) + exponent, T.float32)


@T.macro
def exponentials(scores, top, scale, sums, begin, count):
    """Replace scores of `count` columns by weights."""
    for i, n in T.Parallel(scores.shape[0], count):
        j = begin + n
        power = T.fma(scores[i, j], scale, SHIFT - top[i] * scale)
        made = T.__exp2(power)
        if sums:
            made = T.if_then_else(j // 16 % 4 < sums, exp2_by_sums(power), made)
        scores[i, j] = made


@T.macro
def rounded(scores, weights, begin, count):
    """Round `count` columns of weights to float8."""
    for i, n in T.Parallel(scores.shape[0], count):
        weights[i, begin + n] = nearest(scores[i, begin + n])


@tileprof.jit
def fp8_attention(
    Q, K, Vt, Q_scales, K_scales, V_scales, causal=False,
    block_M: int = 128, block_N: int = 128, stages: int = 2, threads: int = 256, sums: int = 0,
    halves: bool = False,
):  # fmt: skip
    """Queries are the last ones: with causal=True the last query sees all keys.  Of each 64 keys,
    exponentials of 16 * `sums` are made of multiply-adds.  With `halves`, weights of the first half
    of a tile are rounded, and the output is scaled, beside exponentials of the second half."""
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    keys, groups = T.const("keys, groups")
    Q: T.Tensor((batch, length, heads, dim), T.float8_e4m3)
    K: T.Tensor((batch, keys, groups, dim), T.float8_e4m3)
    Vt: T.Tensor((batch, groups, dim, keys), T.float8_e4m3)
    Q_scales: T.Tensor((batch, heads), T.float32)
    K_scales: T.Tensor((batch, groups), T.float32)
    V_scales: T.Tensor((batch, groups), T.float32)
    Out = T.empty((batch, length, heads, dim), T.bfloat16)
    rows = T.ceildiv(length, block_M)

    with T.Kernel(rows, heads, batch, threads=threads) as (bx, head, b):
        Q_shared = T.alloc_shared((block_M, dim), T.float8_e4m3)
        K_shared = T.alloc_shared((block_N, dim), T.float8_e4m3)
        V_shared = T.alloc_shared((dim, block_N), T.float8_e4m3)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.float8_e4m3)
        output = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        first = (rows - 1 - bx if causal else bx) * block_M
        group = head // (heads // groups)
        ahead = keys - length  # keys before the first query
        scale = Q_scales[b, head] * K_scales[b, group] * (dim**-0.5 * LOG2E)

        T.copy(Q[b, first : first + block_M, head, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        end = T.ceildiv(keys, block_N)
        if causal:
            end = T.min(end, T.ceildiv(first + ahead + block_M, block_N))
        for turn in T.Pipelined(end, num_stages=stages):
            k = end - 1 - turn  # the tiles at the diagonal first
            T.copy(K[b, k * block_N : (k + 1) * block_N, group, :], K_shared)
            T.copy(Vt[b, group, :, k * block_N : (k + 1) * block_N], V_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                last = T.min(first + i, length - 1) + ahead if causal else keys - 1
                seen = k * block_N + j <= last
                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            T.copy(top, factor)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = T.__exp2((factor[i] - top[i]) * scale)
                total[i] *= factor[i]
            early = block_N // 2 if halves else block_N
            exponentials(scores, top, scale, sums, 0, early)
            if not halves:
                T.reduce_sum(scores, total, dim=1, clear=False)
                rounded(scores, weights, 0, early)
            for i, j in T.Parallel(block_M, dim):
                output[i, j] *= factor[i]
            if halves:
                rounded(scores, weights, 0, early)
                exponentials(scores, top, scale, sums, early, block_N - early)
                T.reduce_sum(scores, total, dim=1, clear=False)
                rounded(scores, weights, early, block_N - early)
            T.gemm(weights, V_shared, output, transpose_B=True)
        for i in T.Parallel(block_M):
            factor[i] = V_scales[b, group] / total[i]
        for i, j in T.Parallel(block_M, dim):
            output[i, j] *= factor[i]
        T.copy(output, Out[b, first : first + block_M, head, :])
    return Out


def quantised(x) -> tuple[np.ndarray, np.ndarray]:
    """Round (batch, rows, heads, dim) to float8 with a scale for each head: (batch, heads)."""
    scales = np.maximum(np.abs(np.asarray(x, np.float32)).max(axis=(1, 3)), 1e-12) / LARGEST
    return (x / scales[:, None, :, None]).astype(ml_dtypes.float8_e4m3fn), scales


def reference(q, k, vt, q_scales, k_scales, v_scales, causal: bool = False) -> np.ndarray:
    """Attention in float64 of the numbers that float8 and scales stand for."""
    q, k = (np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in (q, k))
    v = np.asarray(vt, np.float64).transpose(0, 1, 3, 2)
    q, k, v = (x * s[:, :, None, None] for x, s in ((q, q_scales), (k, k_scales), (v, v_scales)))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    if causal:
        ahead = scores.shape[-1] - scores.shape[-2]
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool), ahead), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def inputs(batch, length, keys, heads, groups, dim, seed: int = 0) -> list[np.ndarray]:
    """Random queries, keys, and values with keys last; then the scales of all three."""
    generator = np.random.default_rng(seed)
    shapes = (batch, length, heads, dim), *[(batch, keys, groups, dim)] * 2
    made = [quantised(generator.standard_normal(s, np.float32)) for s in shapes]
    (q, q_scales), (k, k_scales), (v, v_scales) = made
    vt = np.ascontiguousarray(v.transpose(0, 2, 3, 1))
    return [q, k, vt, q_scales, k_scales, v_scales]


def main(batch: int = 1, length: int = 300, heads: int = 4, groups: int = 2, dim: int = 64) -> None:
    given = inputs(batch, length, length, heads, groups, dim)
    for causal in (False, True):
        out = fp8_attention(*given, causal=causal).astype(np.float64)
        expected = reference(*given, causal)
        error = np.linalg.norm(out - expected) / np.linalg.norm(expected)
        assert error < LIMIT, error
    print(f"fp8_attention {batch}×{length}×{heads}×{dim}: agrees with NumPy, full and causal")


if __name__ == "__main__":
    main()
