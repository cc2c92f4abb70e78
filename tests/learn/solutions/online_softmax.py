import tileprof
import tileprof.lang as T


@tileprof.jit
def online_softmax(X, block_M: int = 4, block_N: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        tile = T.alloc_fragment((block_M, block_N), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        new_top = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.fill(top, -T.infinity(T.float32))
        T.clear(total)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                inside = k * block_N + j < N
                value = X[bx * block_M + i, k * block_N + j]
                tile[i, j] = T.if_then_else(inside, value, -T.infinity(T.float32))
            T.reduce_max(tile, new_top, dim=1)
            for i in T.Parallel(block_M):
                new_top[i] = T.max(new_top[i], top[i])
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = T.exp(tile[i, j] - new_top[i])
            T.reduce_sum(tile, part, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * T.exp(top[i] - new_top[i]) + part[i]
                top[i] = new_top[i]
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                value = X[bx * block_M + i, k * block_N + j]
                Y[bx * block_M + i, k * block_N + j] = T.exp(value - top[i]) / total[i]
    return Y
