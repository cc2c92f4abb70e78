# ruff: noqa: ANN001, ANN201, D103
"""Values of keys in a hash table whose buckets hold four keys; minus one where there is none."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def hash_probe(Key, Value, Query):
    buckets, N = T.const("buckets, N")
    Key: T.Tensor((buckets, 4), T.int32)
    Value: T.Tensor((buckets, 4), T.int32)
    Query: T.Tensor((N,), T.int32)
    Out = T.empty((N,), T.int32)
    queries = 512

    with T.Kernel(T.ceildiv(N, queries), threads=128) as block:
        query = T.alloc_fragment((queries,), T.int32)
        found = T.alloc_fragment((queries,), T.int32)

        T.copy(Query[block * queries : (block + 1) * queries], query)
        T.fill(found, -1)
        for i in T.Parallel(queries):
            bucket = ((query[i] ^ (query[i] >> 9)) * 37) & (buckets - 1)
            for slot in T.unroll(4):
                if Key[bucket, slot] == query[i]:
                    found[i] = Value[bucket, slot]
        T.copy(found, Out[block * queries : (block + 1) * queries])
    return Out
