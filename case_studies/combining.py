"""The last step of decoding in parts: results over parts of the keys become the one over all."""

import tileprof.lang as T


@T.macro
def combine(Parts, Lse, Out, splits, heads, width, b, first):
    """Parts are weighed by their sums, whose logarithms to base 2 are in Lse (part, b, head); a
    block does `heads` heads from `first` on."""
    sums = T.alloc_fragment((heads, width), T.float32)
    top = T.alloc_fragment((heads,), T.float32)
    whole = T.alloc_fragment((heads,), T.float32)
    T.fill(top, -1e30)
    T.clear(whole)
    T.clear(sums)
    for part in T.unroll(splits):
        for i in T.Parallel(heads):
            top[i] = T.max(top[i], Lse[part, b, first + i])
    # Unrolled, all parts are on their way at once.
    for part in T.unroll(splits):
        for i in T.Parallel(heads):
            whole[i] += T.__exp2(Lse[part, b, first + i] - top[i])
        for i, j in T.Parallel(heads, width):
            weight = T.__exp2(Lse[part, b, first + i] - top[i])
            sums[i, j] += weight * Parts[part, b, first + i, j]
    for i, j in T.Parallel(heads, width):
        # The largest part has a weight of 1, except where no part has keys.
        Out[b, first + i, j] = sums[i, j] / T.max(whole[i], 1e-30)
