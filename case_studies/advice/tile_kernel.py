"""The first half of a layer, gelu(X Wᵀ + bias), in bfloat16: as written, and after each advice.

    python case_studies/advice/study.py --only tile

Weights are float32, as training keeps them, and the kernel converts a tile of them while it copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

import tileprof
import tileprof.lang as T

SHAPE = {"M": 4096, "N": 8192, "K": 4096}
SMALL = {"M": 200, "N": 264, "K": 192}
LIMIT = 0.02
"""How far a result may be from that in float64, as a share of the greatest element."""


def gelu_layer(X, W, bias):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.float32)
    bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        X_shared = T.alloc_shared((rows, depth), T.bfloat16)
        W_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(X[by * rows, k * depth], X_shared)
            T.copy(W[bx * columns, k * depth], W_shared)
            T.gemm(X_shared, W_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = sums[i, j] + bias[bx * columns + j]
            cube = sums[i, j] * sums[i, j] * sums[i, j]
            inner = 0.7978845608 * (sums[i, j] + 0.044715 * cube)
            sums[i, j] = sums[i, j] / (1.0 + T.exp(-2.0 * inner))
        T.copy(sums, Y[by * rows, bx * columns])
    return Y


def gelu_layer_cast_once(X, W, bias):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.bfloat16)
    bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        X_shared = T.alloc_shared((rows, depth), T.bfloat16)
        W_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(X[by * rows, k * depth], X_shared)
            T.copy(W[bx * columns, k * depth], W_shared)
            T.gemm(X_shared, W_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = sums[i, j] + bias[bx * columns + j]
            cube = sums[i, j] * sums[i, j] * sums[i, j]
            inner = 0.7978845608 * (sums[i, j] + 0.044715 * cube)
            sums[i, j] = sums[i, j] / (1.0 + T.exp(-2.0 * inner))
        T.copy(sums, Y[by * rows, bx * columns])
    return Y


def gelu_layer_deeper(X, W, bias):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.bfloat16)
    bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        X_shared = T.alloc_shared((rows, depth), T.bfloat16)
        W_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(X[by * rows, k * depth], X_shared)
            T.copy(W[bx * columns, k * depth], W_shared)
            T.gemm(X_shared, W_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = sums[i, j] + bias[bx * columns + j]
            cube = sums[i, j] * sums[i, j] * sums[i, j]
            inner = 0.7978845608 * (sums[i, j] + 0.044715 * cube)
            sums[i, j] = sums[i, j] / (1.0 + T.exp(-2.0 * inner))
        T.copy(sums, Y[by * rows, bx * columns])
    return Y


VERSIONS: Mapping[str, tuple[Callable[..., torch.Tensor], torch.dtype]] = {
    "before": (gelu_layer, torch.float32),
    "cast_once": (gelu_layer_cast_once, torch.bfloat16),
    "deeper": (gelu_layer_deeper, torch.bfloat16),
}
"""Functions with the type of the weights; the first is as somebody wrote it."""


def inputs(shape: Mapping[str, int], device: str) -> list[torch.Tensor]:
    """X, W and bias; weights are small, as those of a layer are."""
    generator = torch.Generator(device=device).manual_seed(0)
    M, N, K = (shape[name] for name in "MNK")
    x = torch.randn((M, K), device=device, generator=generator).bfloat16()
    w = torch.randn((N, K), device=device, generator=generator) / K**0.5
    return [x, w, torch.randn(N, device=device, generator=generator)]


def reference(given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The result in float64, of weights as the products have them."""
    x, w, bias = given[0].double(), given[1].bfloat16().double(), given[2].double()
    return (torch.nn.functional.gelu(x @ w.T + bias, approximate="tanh"),)


def fresh(version: str, given: Sequence[torch.Tensor]) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A call of a kernel that was not loaded before; weights are cast before, where they are."""
    function, dtype = VERSIONS[version]
    kernel, (x, w, bias) = tileprof.jit(function), given
    weights = w.to(dtype)

    def run() -> tuple[torch.Tensor, ...]:
        return (kernel(x, weights, bias),)

    return run
