import tileprof
import tileprof.lang as T


@tileprof.jit
def mend_race(A, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    # Two steps at once, from what nobody writes: a[i] + 2 a[i + 1] + a[i + 2].
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            at = bx * block + i
            B[at] = (A[at] + A[at + 1]) + (A[at + 1] + A[at + 2])
    return B
