"""Vector addition: the smallest kernel, and the one that shows what a launch costs."""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def vector_add(A, B, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)

    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return C


def main(n: int = 1_000_000, repeat: int = 10) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(n, dtype=np.float32) for _ in range(2))
    with tileprof.scope("repeat"):
        for _ in range(repeat):
            np.testing.assert_array_equal(vector_add(a, b), a + b)
    print(f"vector_add {n:,}: agrees with NumPy")


if __name__ == "__main__":
    main()
