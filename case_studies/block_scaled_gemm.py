"""A product of float8 matrices with scales of blocks, as DeepSeek's models train and serve with.

A has a float32 scale for each row and 128 of K, B one for each 128 × 128.  Tensor cores add up
products of float8 with few bits; so every 128 of K, threads scale the sum and add it in float32.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

BLOCK = 128
"""Elements of K for a scale of A; of K and of N for one of B."""
LARGEST = 448.0
"""Largest number of float8_e4m3."""


@tileprof.jit
def block_scaled_gemm(
    A, B, A_scales, B_scales,
    block_M: int = 192, block_N: int = 128, stages: int = 4, threads: int = 384,
):  # fmt: skip
    """`block_N` divides 128; `threads`: 128 for each 64 rows."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float8_e4m3)
    B: T.Tensor((N, K), T.float8_e4m3)
    A_scales: T.Tensor((T.ceildiv(K, BLOCK), M), T.float32)
    B_scales: T.Tensor((T.ceildiv(N, BLOCK), T.ceildiv(K, BLOCK)), T.float32)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, BLOCK), T.float8_e4m3)
        B_shared = T.alloc_shared((block_N, BLOCK), T.float8_e4m3)
        partial = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, BLOCK), num_stages=stages):
            T.copy(A[by * block_M, k * BLOCK], A_shared)
            T.copy(B[bx * block_N, k * BLOCK], B_shared)
            T.gemm(A_shared, B_shared, partial, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                scale = A_scales[k, by * block_M + i] * B_scales[bx * block_N // BLOCK, k]
                total[i, j] += partial[i, j] * scale
        T.copy(total, C[by * block_M, bx * block_N])
    return C


def quantise_rows(x) -> tuple[np.ndarray, np.ndarray]:
    """Round to float8 with a scale for each row and 128 columns; scales lie column block after
    column block."""
    rows, columns = x.shape
    blocks = np.asarray(x, np.float32).reshape(rows, columns // BLOCK, BLOCK)
    scales = np.maximum(np.abs(blocks).max(axis=2), 1e-4) / LARGEST
    made = (blocks / scales[:, :, None]).reshape(rows, columns)
    return made.astype(ml_dtypes.float8_e4m3fn), np.ascontiguousarray(scales.T)


def quantise_blocks(x) -> tuple[np.ndarray, np.ndarray]:
    """Round to float8 with a scale for each 128 × 128; the last rows may be fewer."""
    rows, columns = x.shape
    count = -(-rows // BLOCK)
    padded = np.zeros((count * BLOCK, columns), np.float32)
    padded[:rows] = x
    blocks = padded.reshape(count, BLOCK, columns // BLOCK, BLOCK)
    scales = np.maximum(np.abs(blocks).max(axis=(1, 3)), 1e-4) / LARGEST
    made = (blocks / scales[:, None, :, None]).reshape(padded.shape)[:rows]
    return made.astype(ml_dtypes.float8_e4m3fn), scales


def reference(a, b, a_scales, b_scales) -> np.ndarray:
    """Product in float64, float[M, N], of the numbers that float8 and scales stand for."""
    rows = np.asarray(a, np.float64) * np.repeat(a_scales.T, BLOCK, axis=1)
    wide = np.repeat(np.repeat(b_scales, BLOCK, axis=0), BLOCK, axis=1)[: len(b)]
    return rows @ (np.asarray(b, np.float64) * wide).T


def inputs(m: int, n: int, k: int, seed: int = 0) -> list[np.ndarray]:
    """Both operands of random numbers, and their scales; blocks differ in size by powers of 2."""
    generator = np.random.default_rng(seed)
    made = []
    for rows in (m, n):
        x = generator.standard_normal((rows, k), np.float32)
        made.append(x * 2.0 ** np.repeat(generator.integers(-4, 5, k // BLOCK), BLOCK))
    (a, a_scales), (b, b_scales) = quantise_rows(made[0]), quantise_blocks(made[1])
    return [a, b, a_scales, b_scales]


def main(m: int = 200, n: int = 320, k: int = 512) -> None:
    given = inputs(m, n, k)
    expected = reference(*given)
    result = block_scaled_gemm(*given).astype(np.float32)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())
    print(f"block_scaled_gemm {m}×{n}×{k}: agrees with NumPy")


if __name__ == "__main__":
    main()
