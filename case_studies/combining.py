"""The last step of decoding in parts: results over parts of the keys become the one over all."""

import tileprof.lang as T


@T.macro
def combine(Parts, Lse, Out, splits, width, b, head):
    """Parts are weighed by their sums, whose logarithms to base 2 are in Lse (part, b, head)."""
    sums = T.alloc_fragment((width,), T.float32)
    top = T.alloc_var(T.float32, -1e30)
    whole = T.alloc_var(T.float32, 0.0)
    for part in T.serial(splits):
        top = T.max(top, Lse[part, b, head])
    T.clear(sums)
    # Unrolled, all parts are on their way at once.
    for part in T.unroll(splits):
        weight = T.__exp2(Lse[part, b, head] - top)
        whole += weight
        for j in T.Parallel(width):
            sums[j] += weight * Parts[part, b, head, j]
    for j in T.Parallel(width):
        Out[b, head, j] = sums[j] / whole
