import tileprof
import tileprof.lang as T


@tileprof.jit
def row_sums(X, block_M: int = 16, block_N: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        # Sums of columns first, rows of the tile at the end: one reduction for all iterations.
        partial = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.clear(partial)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                partial[i, j] += X[bx * block_M + i, k * block_N + j]
        T.reduce_sum(partial, total, dim=1)
        T.copy(total, S[bx * block_M])
    return S
