import tileprof
import tileprof.lang as T


@tileprof.jit
def transpose(A, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=256) as (bx, by):
        tile = T.alloc_shared((block, block), T.float32)
        for i, j in T.Parallel(block, block):
            tile[j, i] = A[by * block + i, bx * block + j]
        T.copy(tile, B[bx * block, by * block])
    return B
