import tileprof
import tileprof.lang as T


@tileprof.jit
def histogram(X, block: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Counts = T.empty((64,), T.int32)
    with T.Kernel(1, threads=64):
        T.clear(Counts)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        own = T.alloc_shared((64,), T.int32)
        T.clear(own)
        for i in T.Parallel(block):
            if bx * block + i < N:
                T.atomic_add(own[X[bx * block + i]], 1)
        for i in T.Parallel(64):
            T.atomic_add(Counts[i], own[i])
    return Counts
