import tileprof
import tileprof.lang as T


@tileprof.jit
def add(A, B, block: int = 256):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            at = bx * block + i
            C[at] = A[at] + B[at]
    return C
