# ruff: noqa: ANN001, ANN201, D103
"""Where numbers stand in a sorted table, by halving."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lower_bound(Table, Query):
    V, N = T.const("V, N")
    Table: T.Tensor((V,), T.float32)
    Query: T.Tensor((N,), T.float32)
    Place = T.empty((N,), T.int32)
    queries = 1024

    with T.Kernel(T.ceildiv(N, queries), threads=256) as block:
        low = T.alloc_fragment((queries,), T.int32)
        wanted = T.alloc_fragment((queries,), T.float32)

        T.copy(Query[block * queries], wanted)
        T.clear(low)
        for level in T.serial(V.bit_length()):
            for i in T.Parallel(queries):
                middle = low[i] + ((1 << (V.bit_length() - 1)) >> level)
                if middle <= V:
                    low[i] = T.if_then_else(Table[middle - 1] < wanted[i], middle, low[i])
        T.copy(low, Place[block * queries])
    return Place
