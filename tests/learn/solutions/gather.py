import tileprof
import tileprof.lang as T


@tileprof.jit
def gather(Table, Index, block: int = 64):
    V, N, M = T.const("V, N, M")
    Table: T.Tensor((V, N), T.float32)
    Index: T.Tensor((M,), T.int32)
    Rows = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
        if Index[by] >= 0:
            for j in T.Parallel(block):
                Rows[by, bx * block + j] = Table[Index[by], bx * block + j]
        else:
            for j in T.Parallel(block):
                Rows[by, bx * block + j] = 0
    return Rows
