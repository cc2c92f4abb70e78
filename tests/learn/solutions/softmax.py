import tileprof
import tileprof.lang as T


@tileprof.jit
def softmax(X, block_M: int = 2):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], row)
        T.reduce_max(row, top, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] = T.exp2((row[i, j] - top[i]) * 1.44269504)
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            Y[bx * block_M + i, j] = row[i, j] / total[i]
    return Y
