import tileprof
import tileprof.lang as T


@tileprof.jit
def outer_sum(A, B, rows: int = 16, columns: int = 128):
    M, N = T.const("M, N")
    A: T.Tensor((M,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            C[by * rows + i, bx * columns + j] = A[by * rows + i] + B[bx * columns + j]
    return C
