"""A product of each expert with its own rows as an operator of PyTorch, with gradients.

Rows lie expert after expert; `ends[e]` is the row behind the last one of expert e.  The gradient of
rows is the same product with transposed weights.  That of weights is one product for each expert,
over as many rows as it has.
"""

from torch import Tensor

import tileprof
import tileprof.lang as T
from case_studies.operators.norms import name_of, sums_of


@tileprof.jit
def grouped_product(
    A, B, Ends, transpose_B: bool = False, dtype: str = "bfloat16",
    block_M: int = 128, block_N: int = 128, block_K: int = 32, stages: int = 3, threads: int = 256,
):  # fmt: skip
    rows = T.dynamic("rows")
    experts, N, K = T.const("experts, N, K")
    A: T.Tensor((rows, K), dtype)
    B: T.Tensor((experts, N, K) if transpose_B else (experts, K, N), dtype)
    Ends: T.Tensor((experts,), T.int32)
    C = T.empty((rows, N), dtype)
    # Every expert may have a tile that is not full.
    with T.Kernel(
        T.ceildiv(N, block_N), rows // block_M + experts, threads=threads
    ) as (bx, by):  # fmt: skip
        A_tile = T.alloc_shared((block_M, block_K), dtype)
        B_tile = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        sums = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        before, start = T.int32(0), T.int32(0)
        owner, first, last = T.int32(0), T.int32(0), T.int32(0)
        for e in T.serial(experts):
            tiles = T.ceildiv(Ends[e] - start, block_M)
            if T.all_of(by >= before, by < before + tiles):
                owner, first, last = e, start + (by - before) * block_M, Ends[e]
            before, start = before + tiles, Ends[e]
        if first < last:
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[first, k * block_K], A_tile)
                if transpose_B:
                    T.copy(B[owner, bx * block_N, k * block_K], B_tile)
                else:
                    T.copy(B[owner, k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, sums, transpose_B=transpose_B)
            for i, j in T.Parallel(block_M, block_N):
                if first + i < last:
                    C[first + i, bx * block_N + j] = sums[i, j]
    return C


@tileprof.jit
def grouped_weights(
    A, dC, Ends, dtype: str = "bfloat16", block_K: int = 128, block_N: int = 128, block_M: int = 32
):
    """Return gradients of weights [experts, K, N]: of each expert the transpose of its rows of A
    times those of dC."""
    rows = T.dynamic("rows")
    experts, N, K = T.const("experts, N, K")
    A: T.Tensor((rows, K), dtype)
    dC: T.Tensor((rows, N), dtype)
    Ends: T.Tensor((experts,), T.int32)
    dB = T.empty((experts, K, N), dtype)
    with T.Kernel(
        T.ceildiv(N, block_N), T.ceildiv(K, block_K), experts, threads=256
    ) as (bx, by, expert):  # fmt: skip
        A_tile = T.alloc_shared((block_M, block_K), dtype)
        dC_tile = T.alloc_shared((block_M, block_N), dtype)
        sums = T.alloc_fragment((block_K, block_N), sums_of(dtype))
        first = T.int32(0)
        if expert > 0:
            first = Ends[expert - 1]
        last = Ends[expert]
        T.clear(sums)
        for m in T.serial(T.ceildiv(last - first, block_M)):
            T.copy(A[first + m * block_M, by * block_K], A_tile)
            for i, j in T.Parallel(block_M, block_N):
                row = first + m * block_M + i
                dC_tile[i, j] = T.if_then_else(row < last, dC[row, bx * block_N + j], 0)
            T.gemm(A_tile, dC_tile, sums, transpose_A=True)
        T.copy(sums, dB[expert, by * block_K, bx * block_N])
    return dB


def grouped_linear_backward(
    d_out: Tensor, x: Tensor, weights: Tensor, ends: Tensor
) -> tuple[Tensor, Tensor]:
    dx = grouped_product(d_out, weights, ends, transpose_B=True, dtype=name_of(x))
    dw = grouped_weights(x, d_out, ends, dtype=name_of(x))
    return dx, dw


@tileprof.op(
    "case_studies::grouped_linear",
    backward=grouped_linear_backward,
    gradients=("x", "weights"),
)
def grouped_linear(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Rows of (rows, width) times (experts, width, features) of the expert that they belong to."""
    return grouped_product(x, weights, ends, dtype=name_of(x))
