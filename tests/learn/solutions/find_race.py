import tileprof
import tileprof.lang as T

LINES = (22, 20)


@tileprof.jit
def smooth(A, Weight, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    Weight: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=32) as (bx, by):
        tile = T.alloc_fragment((block,), T.float32)
        for j in T.Parallel(block):
            tile[j] = A[by, bx * block + j]
        for j in T.Parallel(block):
            tile[j] *= Weight[bx * block + j]
        for j in T.Parallel(block):
            if bx * block + j + 1 < N:
                tile[j] += A[by, bx * block + j + 1]
        for j in T.Parallel(block):
            A[by, bx * block + j] = tile[j] * 0.5
