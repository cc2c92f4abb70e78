import tileprof
import tileprof.lang as T


@tileprof.jit
def causal(Q, K, V, block_M: int = 32, block_N: int = 32):
    N, D = T.const("N, D")
    Q: T.Tensor((N, D), T.float16)
    K: T.Tensor((N, D), T.float16)
    V: T.Tensor((N, D), T.float16)
    Out = T.empty((N, D), T.float32)
    scale = (1.0 / D) ** 0.5 * 1.44269504
    with T.Kernel(T.ceildiv(N, block_M), threads=128) as bx:
        Q_tile = T.alloc_shared((block_M, D), T.float16)
        K_tile = T.alloc_shared((block_N, D), T.float16)
        V_tile = T.alloc_shared((block_N, D), T.float16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.float16)
        out = T.alloc_fragment((block_M, D), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(Q[bx * block_M, 0], Q_tile)
        T.clear(out)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        for k in T.Pipelined(T.ceildiv(T.min(N, (bx + 1) * block_M), block_N), num_stages=2):
            T.copy(K[k * block_N, 0], K_tile)
            T.copy(V[k * block_N, 0], V_tile)
            T.gemm(Q_tile, K_tile, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                if k * block_N + j > T.min(bx * block_M + i, N - 1):
                    scores[i, j] = -T.infinity(T.float32)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = T.exp2((before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * factor[i] + part[i]
            for i, j in T.Parallel(block_M, D):
                out[i, j] *= factor[i]
            T.copy(scores, weights)
            T.gemm(weights, V_tile, out)
        for i, j in T.Parallel(block_M, D):
            Out[bx * block_M + i, j] = out[i, j] / total[i]
    return Out
