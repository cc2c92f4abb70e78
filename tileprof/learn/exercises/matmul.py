"""A matrix product by tiles with T.gemm, for any extents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Decided, without_tensor_cores
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array, B: Array) -> Array:
    """Take A, float16[M, K], and B, float16[K, N]; return C, float32[M, N]."""
    return A.astype(np.float32) @ B.astype(np.float32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Extents that are no multiples of the tiles', and a long K."""
    for m, n, k in ((100, 72, 80), (64, 64, 32), (1, 1, 1), (65, 3, 400)):
        yield floats(random, m, k, dtype=np.float16), floats(random, k, n, dtype=np.float16)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def matmul(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_K, block_N), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float16)
        T.clear(C_tile)
        T.copy(A[by * block_M, 0], A_tile)
        T.copy(B[0, bx * block_N], B_tile)
        T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
"""

EXERCISE = Exercise(
    name="matmul",
    title="A matrix product by tiles",
    track="products",
    task="""
        Each block computes a tile of C. T.gemm adds the product of two tiles to a third, which
        becomes instructions of the tensor cores on a GPU. Operands lie in shared memory, the sum
        in a fragment.

        The starter multiplies the first block_K columns of A and rows of B only, and it sums in
        float16, where 2048 + 1 is 2048.
    """,
    uses=("language.md#tile-operations", "language.md#matrix-products"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "matmul",
        spec,
        cases,
        (Decided("tensor cores compute the product", without_tensor_cores,
                 "Multiply tiles with T.gemm; see docs/language.md, Products."),),
        rtol=1e-4,
        atol=1e-4,
    ),
    hints=(
        Hint("Go over K in steps of block_K: T.ceildiv(K, block_K) iterations, each with two "
             "copies and one T.gemm."),
        Hint("In iteration k, the tile of A begins at column k * block_K and the tile of B at row "
             "k * block_K. T.clear stays before the loop. Past the edge of K, copies give 0, which "
             "adds nothing."),
        Hint("The sum is a fragment of float32.",
             (("        C_tile = T.alloc_fragment((block_M, block_N), T.float16)",
               "        C_tile = T.alloc_fragment((block_M, block_N), T.float32)"),
              ("        T.copy(A[by * block_M, 0], A_tile)\n"
               "        T.copy(B[0, bx * block_N], B_tile)\n"
               "        T.gemm(A_tile, B_tile, C_tile)",
               "        for k in T.serial(T.ceildiv(K, block_K)):\n"
               "            T.copy(A[by * block_M, k * block_K], A_tile)\n"
               "            T.copy(B[k * block_K, bx * block_N], B_tile)\n"
               "            T.gemm(A_tile, B_tile, C_tile)"))),
    ),
    said="Next: let the copies of the next tiles run while this one is multiplied (pipeline).",
)  # fmt: skip
