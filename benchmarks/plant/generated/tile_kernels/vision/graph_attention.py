# ruff: noqa: ANN001, ANN201, D103
"""A node's mean of its neighbours' features, weighted by how well the two fit."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def graph_attention(Feature, Source, Target, Neighbour):
    V, M, E, N = T.const("V, M, E, N")
    Feature: T.Tensor((V, N), T.bfloat16)
    Source: T.Tensor((V,), T.float32)
    Target: T.Tensor((M,), T.float32)
    Neighbour: T.Tensor((M, E), T.int32)
    Out = T.empty((M, N), T.bfloat16)
    nodes = 4

    with T.Kernel(T.ceildiv(M, nodes), threads=128) as block:
        fit = T.alloc_fragment((nodes, E), T.float32)
        most = T.alloc_fragment((nodes,), T.float32)
        total = T.alloc_fragment((nodes,), T.float32)
        weight = T.alloc_shared((nodes, E), T.float32)
        mean = T.alloc_fragment((nodes, N), T.float32)

        for i, e in T.Parallel(nodes, E):
            raw = Source[Neighbour[block * nodes + i, e]] + Target[block * nodes + i]
            fit[i, e] = T.max(raw, raw * 0.2)
        T.reduce_max(fit, most, dim=1)
        for i, e in T.Parallel(nodes, E):
            fit[i, e] = T.exp(fit[i, e] - most[i])
        T.reduce_sum(fit, total, dim=1)
        for i, e in T.Parallel(nodes, E):
            weight[i, e] = fit[i, e] / total[i]
        T.clear(mean)
        for n in T.serial(E):
            for i, j in T.Parallel(nodes, N):
                from_ = Neighbour[block * nodes + i, n]
                mean[i, j] += weight[i, n] * T.cast(Feature[from_, j], T.float32)
        T.copy(mean, Out[block * nodes : (block + 1) * nodes, :])
    return Out
