# ruff: noqa: ANN001, ANN201, D103
"""The least, the greatest and the sum of each zone of a column, by which queries skip zones."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def zone_map(X):
    Z, N = T.const("Z, N")
    X: T.Tensor((Z, N), T.float32)
    Out = T.empty((3, Z), T.float32)
    zones, columns = 8, 512

    with T.Kernel(T.ceildiv(Z, zones), threads=128) as block:
        x = T.alloc_fragment((zones, columns), T.float32)
        low = T.alloc_fragment((zones, columns), T.float32)
        high = T.alloc_fragment((zones, columns), T.float32)
        sums = T.alloc_fragment((zones, columns), T.float32)
        least = T.alloc_fragment((zones,), T.float32)
        most = T.alloc_fragment((zones,), T.float32)
        total = T.alloc_fragment((zones,), T.float32)

        T.fill(low, 1e30)
        T.fill(high, -1e30)
        T.clear(sums)
        for k in T.serial(N // columns):
            T.copy(X[block * zones, k * columns], x)
            for i, j in T.Parallel(zones, columns):
                low[i, j] = T.min(low[i, j], x[i, j])
                high[i, j] = T.max(high[i, j], x[i, j])
                sums[i, j] += x[i, j]
        T.reduce_min(low, least, dim=1)
        T.reduce_max(high, most, dim=1)
        T.reduce_sum(sums, total, dim=1)
        T.copy(least, Out[0, block * zones : (block + 1) * zones])
        T.copy(most, Out[1, block * zones : (block + 1) * zones])
        T.copy(total, Out[2, block * zones : (block + 1) * zones])
    return Out
