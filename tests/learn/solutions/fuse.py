import tileprof
import tileprof.lang as T


@tileprof.jit
def fuse(X, Scale, Bias, rows: int = 8, columns: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Scale: T.Tensor((N,), T.float32)
    Bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        tile = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], tile)
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = tile[i, j] * Scale[bx * columns + j] + Bias[bx * columns + j]
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = T.max(tile[i, j], 0)
        T.copy(tile, Y[by * rows, bx * columns])
    return Y
