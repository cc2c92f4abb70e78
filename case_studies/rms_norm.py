"""RMS normalisation: every row divided by the root of its mean square, times a weight."""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def rms_norm(X, W, epsilon: float = 1e-6, block_M: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        square = T.alloc_fragment((block_M, N), T.float32)
        mean = T.alloc_fragment((block_M,), T.float32)

        T.copy(X[bx * block_M, 0], row)
        with T.scope("mean square"):
            for i, j in T.Parallel(block_M, N):
                square[i, j] = row[i, j] * row[i, j]
            T.reduce_sum(square, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = T.rsqrt(mean[i] / N + epsilon)
        with T.scope("scale"):
            for i, j in T.Parallel(block_M, N):
                row[i, j] = row[i, j] * mean[i] * W[j]
        T.copy(row, Y[bx * block_M, 0])

    return Y


def reference(x: np.ndarray, w: np.ndarray, epsilon: float = 1e-6) -> np.ndarray:
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon) * w


def main(m: int = 2048, n: int = 2048, repeat: int = 10) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((m, n), dtype=np.float32)
    w = generator.standard_normal(n, dtype=np.float32)
    with tileprof.scope("check"):
        np.testing.assert_allclose(rms_norm(x, w), reference(x, w), rtol=1e-4, atol=1e-5)
    with tileprof.scope("repeat"):
        for _ in range(repeat):
            rms_norm(x, w)
    print(f"rms_norm {m}×{n}: agrees with NumPy")


if __name__ == "__main__":
    main()
