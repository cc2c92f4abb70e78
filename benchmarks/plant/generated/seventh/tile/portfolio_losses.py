# ruff: noqa: ANN001, ANN201, D103
"""Losses of a portfolio of loans in many futures, whose debtors fail below thresholds."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def portfolio_losses(Factor, Loading, Threshold, Given, BP: int = 128, BN: int = 64):
    paths, names, F = T.const("paths, names, F")
    Factor: T.Tensor((paths, F), T.bfloat16)
    Loading: T.Tensor((names, F), T.bfloat16)
    Threshold: T.Tensor((names,), T.float32)
    Given: T.Tensor((names,), T.float32)
    Loss = T.empty((paths,), T.float32)

    with T.Kernel(T.ceildiv(paths, BP), threads=128) as bp:
        factor = T.alloc_shared((BP, F), T.bfloat16)
        loading = T.alloc_shared((BN, F), T.bfloat16)
        threshold = T.alloc_shared((BN,), T.float32)
        given = T.alloc_shared((BN,), T.float32)
        asset = T.alloc_fragment((BP, BN), T.float32)
        lost = T.alloc_fragment((BP, BN), T.float32)
        loss = T.alloc_fragment((BP,), T.float32)

        T.copy(Factor[bp * BP, 0], factor)
        T.clear(lost)
        for n in T.Pipelined(T.ceildiv(names, BN), num_stages=2):
            T.copy(Loading[n * BN, 0], loading)
            T.copy(Threshold[n * BN], threshold)
            T.copy(Given[n * BN], given)
            T.gemm(factor, loading, asset, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(BP, BN):
                lost[i, j] += T.if_then_else(asset[i, j] < threshold[j], given[j], 0.0)
        T.reduce_sum(lost, loss, dim=1)
        T.copy(loss, Loss[bp * BP])
    return Loss
