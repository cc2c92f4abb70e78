import tileprof
import tileprof.lang as T


@tileprof.jit
def scan(A, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    blocks = T.ceildiv(N, block)
    C = T.empty((N,), T.int32)
    Sums = T.alloc_global((blocks,), T.int32)
    with T.Kernel(blocks, threads=64) as bx:
        tile = T.alloc_fragment((block,), T.int32)
        total = T.alloc_fragment((1,), T.int32)
        T.copy(A[bx * block], tile)
        T.reduce_sum(tile, total, dim=0)
        T.copy(total, Sums[bx])
    with T.Kernel(blocks, threads=64) as bx:
        tile = T.alloc_shared((block,), T.int32)
        before = 0
        for k in T.serial(bx):
            before += Sums[k]
        T.copy(A[bx * block], tile)
        T.cumsum(tile)
        for i in T.Parallel(block):
            C[bx * block + i] = tile[i] + before
    return C
