"""A bfloat16 matrix times int4 weights: two weights a byte, one scale for each group of 32.

The weights are unpacked and scaled on the way from the packed tile to the tile that is multiplied.
"""

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

GROUP = 32


@tileprof.jit
def int4_matmul(A, Packed, Scales, block_M: int = 64, block_N: int = 64, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N, K // GROUP), T.float32)
    C = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_shared((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], packed)
            with T.scope("unpack"):
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (packed[i, j // 2] >> T.cast((j % 2) * 4, T.uint8)) & T.uint8(15)
                    scale = Scales[bx * block_N + i, (k * block_K + j) // GROUP]
                    weights[i, j] = (T.cast(nibble, T.float32) - 8.0) * scale
            with T.scope("multiply"):
                T.gemm(A_shared, weights, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])

    return C


def pack(weights: np.ndarray) -> np.ndarray:
    """N×K weights in 0…15 to N×K/2 bytes, the even column in the low half."""
    return (weights[:, 0::2] | (weights[:, 1::2] << 4)).astype(np.uint8)


def main(m: int = 256, n: int = 320, k: int = 512, repeat: int = 5) -> None:
    generator = np.random.default_rng(0)
    a = generator.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    levels = generator.integers(0, 16, (n, k), dtype=np.uint8)
    scales = generator.uniform(0.5, 1.5, (n, k // GROUP)).astype(np.float32)

    unpacked = (levels.astype(np.float32) - 8) * np.repeat(scales, GROUP, axis=1)
    expected = a.astype(np.float32) @ unpacked.astype(ml_dtypes.bfloat16).astype(np.float32).T
    for _ in range(repeat):
        result = int4_matmul(a, pack(levels), scales)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-2)
    print(f"int4_matmul {m}×{n}×{k}: agrees with NumPy")


if __name__ == "__main__":
    main()
