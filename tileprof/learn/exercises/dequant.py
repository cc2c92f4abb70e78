"""A product with 4-bit weights that are unpacked on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Decided, OnlyArguments, without_tensor_cores
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array, Packed: Array, Scales: Array) -> Array:
    """Take A, float16[M, K], Packed, uint8[N, K/2], Scales, float16[N]; return float32[M, N].

    A byte holds two columns, the even one in its low half; 0 to 15 stand for -8 to 7.
    """
    weights = np.stack([Packed & 15, Packed >> 4], axis=2).reshape(len(Packed), -1)
    scaled = (weights.astype(np.float16) - np.float16(8)) * Scales[:, None]
    return A.astype(np.float32) @ scaled.astype(np.float32).T


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Extents that are no multiples of the tiles'."""
    for m, n, k in ((40, 72, 96), (64, 64, 64), (1, 3, 10)):
        packed = random.integers(0, 256, (n, k // 2), dtype=np.uint8)
        scales = random.uniform(0.5, 1.5, n).astype(np.float16)
        yield floats(random, m, k, dtype=np.float16), packed, scales


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def dequant(A, Packed, Scales, block_M: int = 64, block_N: int = 64, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N,), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        bytes_tile = T.alloc_shared((block_N, block_K // 2), T.uint8)
        W_tile = T.alloc_shared((block_N, block_K), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], bytes_tile)
            for i, j in T.Parallel(block_N, block_K):
                level = bytes_tile[i, j // 2] & T.uint8(15)
                W_tile[i, j] = T.cast(level, T.float16) * Scales[bx * block_N + i]
            T.gemm(A_tile, W_tile, C_tile, transpose_B=True)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
"""

EXERCISE = Exercise(
    name="dequant",
    title="A product with 4-bit weights",
    track="products",
    task="""
        Weights of 4 bits are two to a byte. They are unpacked between the copy of the bytes and the
        product, so that 4 bits a weight are read, not 16. Weights have rows of K, hence
        transpose_B=True.

        The starter uses the low half of each byte for both columns, and takes 0 to 15 as they are.
    """,
    uses=("language.md#scalars", "language.md#element-types", "language.md#tile-operations"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "dequant",
        spec,
        cases,
        (OnlyArguments("the unpacked weights never go to global memory"),
         Decided("tensor cores compute the product", without_tensor_cores,
                 "Multiply tiles with T.gemm.")),
        rtol=2e-3,
        atol=2e-3,
    ),
    hints=(
        Hint("Column j is in byte j // 2: in the low half where j is even, in the high half where "
             "it is odd."),
        Hint("Shift by (j % 2) * 4 before the mask. The shift's operands need one type: "
             "T.cast((j % 2) * 4, T.uint8)."),
        Hint("Subtract 8 as a float16, before the scale.",
             (("                level = bytes_tile[i, j // 2] & T.uint8(15)",
               "                half = T.cast((j % 2) * 4, T.uint8)\n"
               "                level = (bytes_tile[i, j // 2] >> half) & T.uint8(15)"),
              ("                W_tile[i, j] = T.cast(level, T.float16) * Scales[bx * block_N + i]",
               "                signed = T.cast(level, T.float16) - T.float16(8)\n"
               "                W_tile[i, j] = signed * Scales[bx * block_N + i]"))),
    ),
    said="case_studies/int4_matmul.py has a scale for each group of 32 weights.",
)  # fmt: skip
