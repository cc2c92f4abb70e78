# ruff: noqa: ANN001, ANN201, D103
"""A product with weights and, beside it, one through a rank of 16 that was learned later."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lora(X, W, Down, Up):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((K, N), T.bfloat16)
    Down: T.Tensor((K, 16), T.bfloat16)
    Up: T.Tensor((16, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        left = T.alloc_shared((rows, depth), T.bfloat16)
        right = T.alloc_shared((depth, columns), T.bfloat16)
        down = T.alloc_shared((depth, 16), T.bfloat16)
        up = T.alloc_shared((16, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)
        low = T.alloc_fragment((rows, 16), T.float32)
        inner = T.alloc_fragment((rows, 16), T.bfloat16)

        T.clear(sums)
        T.clear(low)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[by * rows, k * depth], left)
            T.copy(W[k * depth, bx * columns], right)
            T.copy(Down[k * depth, 0], down)
            T.gemm(left, right, sums)
            T.gemm(left, down, low)
        T.copy(Up[0, bx * columns], up)
        T.copy(low, inner)
        T.gemm(inner, up, sums)
        T.copy(sums, Y[by * rows, bx * columns])
    return Y
