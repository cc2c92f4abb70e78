import tileprof
import tileprof.lang as T


@tileprof.jit
def bank_conflicts(A, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_shared((block, block), T.float32)
        T.copy(A[by * block, bx * block], tile)
        for j, i in T.Parallel(block, block):
            B[bx * block + j, by * block + i] = tile[i, j]
    return B
