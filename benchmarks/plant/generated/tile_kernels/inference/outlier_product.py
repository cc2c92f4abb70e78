# ruff: noqa: ANN001, ANN201, D103
"""A product of bytes whose few columns of outliers are multiplied in sixteen bits beside it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def outlier_product(X, W, ScaleX, ScaleW, OutX, OutW):
    M, N, K, O = T.const("M, N, K, O")  # noqa: E741
    X: T.Tensor((M, K), T.int8)
    W: T.Tensor((N, K), T.int8)
    ScaleX: T.Tensor((M,), T.float32)
    ScaleW: T.Tensor((N,), T.float32)
    OutX: T.Tensor((M, O), T.float16)
    OutW: T.Tensor((N, O), T.float16)
    Y = T.empty((M, N), T.float16)
    BM, BN, BK = 128, 128, 128

    with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=256) as (pid_n, pid_m):
        x = T.alloc_shared((BM, BK), T.int8)
        w = T.alloc_shared((BN, BK), T.int8)
        ox = T.alloc_shared((BM, O), T.float16)
        ow = T.alloc_shared((BN, O), T.float16)
        whole = T.alloc_fragment((BM, BN), T.int32)
        exact = T.alloc_fragment((BM, BN), T.float32)

        T.copy(OutX[pid_m * BM, 0], ox)
        T.copy(OutW[pid_n * BN, 0], ow)
        T.clear(whole)
        for k in T.Pipelined(T.ceildiv(K, BK), num_stages=3):
            T.copy(X[pid_m * BM, k * BK], x)
            T.copy(W[pid_n * BN, k * BK], w)
            T.gemm(x, w, whole, transpose_B=True)
        T.gemm(ox, ow, exact, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(BM, BN):
            m, n = pid_m * BM + i, pid_n * BN + j
            exact[i, j] += T.cast(whole[i, j], T.float32) * ScaleX[m] * ScaleW[n]
        T.copy(exact, Y[pid_m * BM, pid_n * BN])
    return Y
