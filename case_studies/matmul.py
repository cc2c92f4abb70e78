"""Matrix product in tiles: the kernel that every other one starts from.

    tileprof run case_studies/matmul.py

Each block computes one tile of C: it walks along K, copies a tile of A and a tile of B into shared
memory and multiplies them into a fragment.  Sizes are not multiples of the tiles on purpose.
"""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def matmul(A, B, block_M: int = 64, block_N: int = 128, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float32)
        B_shared = T.alloc_shared((block_K, block_N), T.float32)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            with T.scope("load"):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
            with T.scope("multiply"):
                T.gemm(A_shared, B_shared, C_local)
        with T.scope("store"):
            T.copy(C_local, C[by * block_M, bx * block_N])

    return C


def main(m: int = 1000, n: int = 1000, k: int = 1000, repeat: int = 10) -> None:
    generator = np.random.default_rng(0)
    a = generator.standard_normal((m, k), dtype=np.float32)
    b = generator.standard_normal((k, n), dtype=np.float32)

    with tileprof.scope("check"):
        np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-3)
    with tileprof.scope("repeat"):
        for _ in range(repeat):
            matmul(a, b)
    print(f"matmul {m}×{n}×{k}: agrees with NumPy")


if __name__ == "__main__":
    main()
