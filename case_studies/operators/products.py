"""A multilayer perceptron and a linear layer with int4 weights as operators of PyTorch.

GELU and its derivative are applied to the sums of a product before these leave the registers.  The
weights of an int4 layer are unpacked on the way to the tile that is multiplied, forward and
backward.
"""

import math
from typing import Any

from torch import Tensor

import tileprof
import tileprof.lang as T
from case_studies.operators.norms import name_of, sums_of

GROUP = 32
"""Weights that share one scale."""


@T.macro
def add_product(
    A, B, sums, row, column, K, transpose_A, transpose_B, dtype, block_M, block_N, block_K
):  # fmt: skip
    """`sums` of the tile at (row, column) of op(A) times op(B)."""
    A_tile = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
    B_tile = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
    T.clear(sums)
    for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
        if transpose_A:
            T.copy(A[k * block_K, row], A_tile)
        else:
            T.copy(A[row, k * block_K], A_tile)
        if transpose_B:
            T.copy(B[column, k * block_K], B_tile)
        else:
            T.copy(B[k * block_K, column], B_tile)
        T.gemm(A_tile, B_tile, sums, transpose_A=transpose_A, transpose_B=transpose_B)


@tileprof.jit
def product(
    A, B, transpose_A: bool = False, transpose_B: bool = False, dtype: str = "float32",
    block_M: int = 128, block_N: int = 128, block_K: int = 32,
):  # fmt: skip
    """op(A) times op(B).  Rows of A are dynamic: tokens."""
    tokens = T.dynamic("tokens")
    M, K = (T.const("M"), tokens) if transpose_A else (tokens, T.const("K"))
    N = T.const("N")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        sums = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        add_product(
            A, B, sums, by * block_M, bx * block_N, K, transpose_A, transpose_B, dtype,
            block_M, block_N, block_K,
        )  # fmt: skip
        T.copy(sums, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def product_gelu(
    A, B, dtype: str = "float32", block_M: int = 128, block_N: int = 128, block_K: int = 32
):
    """H = A times the transpose of B, and GELU of it."""
    M, N, K = T.dynamic("M"), T.const("N"), T.const("K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K), dtype)
    H = T.empty((M, N), dtype)
    G = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        sums = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        row, column = by * block_M, bx * block_N
        add_product(A, B, sums, row, column, K, False, True, dtype, block_M, block_N, block_K)
        T.copy(sums, H[row, column])
        for i, j in T.Parallel(block_M, block_N):
            sums[i, j] = sums[i, j] * (0.5 + 0.5 * T.erf(sums[i, j] * math.sqrt(0.5)))
        T.copy(sums, G[row, column])
    return H, G


@tileprof.jit
def product_gelu_backward(
    A, B, H, dtype: str = "float32", block_M: int = 128, block_N: int = 128, block_K: int = 32
):
    """A times B, times the derivative of GELU at H."""
    M, N, K = T.dynamic("M"), T.const("N"), T.const("K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    H: T.Tensor((M, N), dtype)
    dH = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        sums = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        row, column = by * block_M, bx * block_N
        add_product(A, B, sums, row, column, K, False, False, dtype, block_M, block_N, block_K)
        for i, j in T.Parallel(block_M, block_N):
            h = T.cast(H[row + i, column + j], sums_of(dtype))
            share = 0.5 + 0.5 * T.erf(h * math.sqrt(0.5))
            density = T.exp(-0.5 * h * h) * (1 / math.sqrt(2 * math.pi))
            sums[i, j] *= share + h * density
        T.copy(sums, dH[row, column])
    return dH


def _tiles(x: Tensor) -> dict[str, int]:
    """The tiles that fit into shared memory and registers."""
    return {"block_M": 64, "block_N": 64} if x.dtype.itemsize > 4 else {}


def mlp_backward(
    d_out: Tensor, x: Tensor, up: Tensor, down: Tensor, hidden: Tensor, active: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    use: Any = {"dtype": name_of(x), **_tiles(x)}
    rows, slopes = x.reshape(-1, x.shape[-1]), d_out.view(-1, d_out.shape[-1])
    d_down = product(slopes, active, transpose_A=True, **use)
    d_hidden = product_gelu_backward(slopes, down, hidden, **use)
    d_up = product(d_hidden, rows, transpose_A=True, **use)
    dx = product(d_hidden, up, **use)
    return dx.view(x.shape), d_up, d_down


@tileprof.op("case_studies::mlp", backward=mlp_backward, keeps=("hidden", "active"))
def mlp(x: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """GELU(x up.T) down.T, of weights (hidden, width) and (width, hidden)."""
    use: Any = {"dtype": name_of(x), **_tiles(x)}
    hidden, active = product_gelu(x.reshape(-1, x.shape[-1]), up, **use)
    y = product(active, down, transpose_B=True, **use)
    y = y.view(*x.shape[:-1], down.shape[0])
    return y, hidden, active


@T.macro
def unpack(packed, Scales, weights, row, column, dtype, block_N, block_K):
    """Two weights a byte to a tile of weights, each times the scale of its group."""
    for i, j in T.Parallel(block_N, block_K):
        nibble = (packed[i, j // 2] >> T.cast((j % 2) * 4, T.uint8)) & T.uint8(15)
        scale = Scales[row + i, (column + j) // GROUP]
        weights[i, j] = (T.cast(nibble, sums_of(dtype)) - 8.0) * scale


@tileprof.jit
def int4_product(
    A, Packed, Scales, dtype: str = "bfloat16",
    block_M: int = 64, block_N: int = 64, block_K: int = 64,
):  # fmt: skip
    M, N, K = T.dynamic("M"), T.const("N"), T.const("K")
    A: T.Tensor((M, K), dtype)
    Packed: T.Tensor((N, K // 2), T.uint8)
    Scales: T.Tensor((N, K // GROUP), sums_of(dtype))
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), dtype)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_shared((block_N, block_K), dtype)
        sums = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(Packed[bx * block_N, k * (block_K // 2)], packed)
            unpack(packed, Scales, weights, bx * block_N, k * block_K, dtype, block_N, block_K)
            T.gemm(A_tile, weights, sums, transpose_B=True)
        T.copy(sums, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def int4_product_backward(
    dC, Packed, Scales, dtype: str = "bfloat16",
    block_M: int = 64, block_N: int = 64, block_K: int = 64,
):  # fmt: skip
    M, N, K = T.dynamic("M"), T.const("N"), T.const("K")
    dC: T.Tensor((M, N), dtype)
    Packed: T.Tensor((N, K), T.uint8)
    Scales: T.Tensor((N, K * 2 // GROUP), sums_of(dtype))
    dA = T.empty((M, K * 2), dtype)
    with T.Kernel(T.ceildiv(K * 2, block_K), T.ceildiv(M, block_M), threads=128) as (bx, by):
        dC_tile = T.alloc_shared((block_M, block_N), dtype)
        packed = T.alloc_shared((block_N, block_K // 2), T.uint8)
        weights = T.alloc_shared((block_N, block_K), dtype)
        sums = T.alloc_fragment((block_M, block_K), sums_of(dtype))
        T.clear(sums)
        for n in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            T.copy(dC[by * block_M, n * block_N], dC_tile)
            T.copy(Packed[n * block_N, bx * (block_K // 2)], packed)
            unpack(packed, Scales, weights, n * block_N, bx * block_K, dtype, block_N, block_K)
            T.gemm(dC_tile, weights, sums)
        T.copy(sums, dA[by * block_M, bx * block_K])
    return dA


def int4_linear_backward(d_out: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    rows = d_out.view(-1, d_out.shape[-1])
    dx = int4_product_backward(rows, packed, scales, dtype=name_of(d_out))
    return dx.view(*d_out.shape[:-1], packed.shape[1] * 2)


def _int4_batched(info: Any, dims: Any, x: Tensor, packed: Tensor, scales: Tensor) -> Any:
    """A batch of inputs is one with another dimension; weights are one for all."""
    if dims[1:] != (None, None):
        raise NotImplementedError("`int4_linear` takes one set of weights for a whole batch")
    return int4_linear(x.movedim(dims[0], 0), packed, scales), 0


@tileprof.op(
    "case_studies::int4_linear",
    backward=int4_linear_backward,
    gradients=("x",),
    vmap=_int4_batched,
)
def int4_linear(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """x times the transpose of (features, width) weights: two a byte, one scale for 32 of them."""
    y = int4_product(x.reshape(-1, x.shape[-1]), packed, scales, dtype=name_of(x))
    return y.view(*x.shape[:-1], packed.shape[0])
