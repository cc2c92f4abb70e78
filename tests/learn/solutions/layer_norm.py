import tileprof
import tileprof.lang as T


@tileprof.jit
def layer_norm(X, W, block_M: int = 2):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        square = T.alloc_fragment((block_M, N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], row)
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] -= total[i] / N
        for i, j in T.Parallel(block_M, N):
            square[i, j] = row[i, j] * row[i, j]
        T.reduce_sum(square, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] = row[i, j] * T.rsqrt(total[i] / N + 1e-5) * W[j]
        T.copy(row, Y[bx * block_M, 0])
    return Y
