# ruff: noqa: ANN001, ANN201, D103
"""A product by weights of four bits each, whose 32 neighbours share a power of two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mxfp4_product(A, Packed, Power):
    M, N, K, bytes, blocks = T.const("M, N, K, bytes, blocks")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, bytes), T.uint8)
    Power: T.Tensor((N, blocks), T.uint8)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        a = T.alloc_shared((rows, depth), T.bfloat16)
        packed = T.alloc_shared((columns, depth // 2), T.uint8)
        power = T.alloc_shared((columns, depth // 32), T.uint8)
        weights = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(K // depth, num_stages=3):
            T.copy(A[by * rows, k * depth], a)
            T.copy(Packed[bx * columns, k * (depth // 2)], packed)
            T.copy(Power[bx * columns, k * (depth // 32)], power)
            for i, j in T.Parallel(columns, depth):
                nibble = (T.cast(packed[i, j // 2], T.int32) >> (4 * (j % 2))) & 15
                half = T.cast(nibble & 1, T.float32) * 0.5
                step = (nibble >> 1) & 3
                size = T.if_then_else(
                    step == 0, half, (1.0 + half) * T.cast((1 << step) >> 1, T.float32)
                )
                signed = T.if_then_else(nibble >= 8, 0.0 - size, size)
                scale = T.exp2(T.cast(power[i, j // 32], T.float32) - 127.0)
                weights[i, j] = signed * scale
            T.gemm(a, weights, sums, transpose_B=True)
        T.copy(sums, C[by * rows, bx * columns])
    return C
