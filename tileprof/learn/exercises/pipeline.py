"""A matrix product whose copies overlap with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Decided, synchronous, without_tensor_cores
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge

from .matmul import spec


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Partial tiles; rows of 16 bytes and of 4 bytes, which decide between TMA and cp.async."""
    for m, n, k in ((100, 72, 200), (128, 64, 64), (66, 66, 66)):
        yield floats(random, m, k, dtype=np.float16), floats(random, k, n, dtype=np.float16)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def pipeline(A, B, block_M: int = 64, block_N: int = 64, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_K, block_N), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.serial(T.ceildiv(K, block_K)):
            for i, j in T.Parallel(block_M, block_K):
                A_tile[i, j] = A[by * block_M + i, k * block_K + j]
            T.copy(B[k * block_K, bx * block_N], B_tile)
            T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
"""

EXERCISE = Exercise(
    name="pipeline",
    title="Copies that run while tensor cores multiply",
    track="products",
    task="""
        The starter's values are right. But each iteration waits for its two tiles, then multiplies:
        the memory rests while the tensor cores work, and the other way round. Asynchronous copies
        (cp.async, on Hopper TMA) load the tiles of later iterations meanwhile.

        The compiler says what it decided, and why: tileprof compile pipeline.py:pipeline --target
        sm_90a --set M=512 --set N=512 --set K=512 --emit remarks.
    """,
    uses=("language.md#loops", "language.md#copies", "gpu.md#see-how-a-kernel-was-compiled"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "pipeline",
        spec,
        cases,
        (Decided("the tiles of A and B are loaded by asynchronous copies", synchronous("A", "B"),
                 "See docs/language.md, Copies, for what an asynchronous copy needs."),
         Decided("tensor cores compute the product", without_tensor_cores,
                 "Multiply tiles with T.gemm.")),
        rtol=1e-4,
        atol=1e-4,
    ),
    hints=(
        Hint("Only T.copy of a whole tile can become an asynchronous copy; a T.Parallel over "
             "elements cannot."),
        Hint("The remark's reason: there is no pipelined loop of one stage or more. "
             "T.Pipelined(n, num_stages=s) is T.serial(n) whose copies may run s - 1 iterations "
             "ahead, each in a slot of its own."),
        Hint("Two changes.",
             (("        for k in T.serial(T.ceildiv(K, block_K)):",
               "        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):"),
              ("            for i, j in T.Parallel(block_M, block_K):\n"
               "                A_tile[i, j] = A[by * block_M + i, k * block_K + j]",
               "            T.copy(A[by * block_M, k * block_K], A_tile)"))),
    ),
    said="Where rows of a tensor are multiples of 16 bytes, a producer warp group loads by TMA.",
)  # fmt: skip
