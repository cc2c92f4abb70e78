"""A bfloat16 matrix times float8 weights, one scale for each group of 128 along K.

Weights become bfloat16 in registers, scale included, and are multiplied from there: Cᵀ = W · Aᵀ.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

GROUP = 128


@tileprof.jit
def fp8_matmul(
    A, W, Scales, block_M: int = 256, block_N: int = 128, block_K: int = 64, stages=4, threads=256
):
    """`block_M`: rows of A; `block_N`: of the weights."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.float8_e4m3)
    Scales: T.Tensor((K // GROUP, N), T.float32)
    C = T.empty((N, M), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        W_shared = T.alloc_shared((block_N, block_K), T.float8_e4m3)
        weights = T.alloc_fragment((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(W[bx * block_N, k * block_K], W_shared)
            for i, j in T.Parallel(block_N, block_K):
                scale = Scales[k * block_K // GROUP, bx * block_N + i]
                weights[i, j] = T.cast(W_shared[i, j], T.float32) * scale
            T.gemm(weights, A_shared, C_local, transpose_B=True)
        T.copy(C_local, C[bx * block_N, by * block_M])
    return C


def reference(a, w, scales) -> np.ndarray:
    """In float64, of weights that are rounded to bfloat16 as the kernel does; N×M."""
    scaled = np.asarray(w, np.float32) * np.repeat(scales.T, GROUP, axis=1)
    return np.asarray(scaled.astype(ml_dtypes.bfloat16), np.float64) @ np.asarray(a, np.float64).T


def inputs(m: int, n: int, k: int, seed: int = 0) -> list[np.ndarray]:
    """Random operands, and scales between 0.5 and 1.5."""
    generator = np.random.default_rng(seed)
    a, w = (generator.standard_normal(s, np.float32) for s in ((m, k), (n, k)))
    scales = generator.uniform(0.5, 1.5, (k // GROUP, n)).astype(np.float32)
    return [a.astype(ml_dtypes.bfloat16), w.astype(ml_dtypes.float8_e4m3fn), scales]


def main(m: int = 200, n: int = 320, k: int = 512) -> None:
    given = inputs(m, n, k)
    expected = reference(*given)
    result = fp8_matmul(*given).astype(np.float32)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-1)
    print(f"fp8_matmul {m}×{n}×{k}: agrees with NumPy")


if __name__ == "__main__":
    main()
