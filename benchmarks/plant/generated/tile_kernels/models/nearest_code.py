# ruff: noqa: ANN001, ANN201, D103
"""How far each vector is from the nearest of a book of codes, but for its own square."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def nearest_code(X, Codes, Squares):
    M, N, dim = T.const("M, N, dim")
    X: T.Tensor((M, dim), T.float16)
    Codes: T.Tensor((N, dim), T.float16)
    Squares: T.Tensor((N,), T.float32)
    Out = T.empty((M,), T.float32)
    rows, columns = 128, 128

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        vectors = T.alloc_shared((rows, dim), T.float16)
        codes = T.alloc_shared((columns, dim), T.float16)
        dots = T.alloc_fragment((rows, columns), T.float32)
        least = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], vectors)
        T.fill(least, T.infinity(T.float32))
        for k in T.Pipelined(N // columns, num_stages=3):
            T.copy(Codes[k * columns, 0], codes)
            T.gemm(vectors, codes, dots, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                dots[i, j] = Squares[k * columns + j] - dots[i, j] * 2.0
            T.reduce_min(dots, least, dim=1, clear=False)
        T.copy(least, Out[block * rows])
    return Out
