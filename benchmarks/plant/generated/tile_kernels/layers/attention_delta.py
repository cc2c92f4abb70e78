# ruff: noqa: ANN001, ANN201, D103
"""Each row's product of a result and its gradient, which attention's backward pass needs."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def attention_delta(Out, Grad):
    M, dim = T.const("M, dim")
    Out: T.Tensor((M, dim), T.bfloat16)
    Grad: T.Tensor((M, dim), T.bfloat16)
    Delta = T.empty((M,), T.float32)
    rows = 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        terms = T.alloc_fragment((rows, dim), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, dim):
            row = block * rows + i
            terms[i, j] = T.cast(Out[row, j], T.float32) * T.cast(Grad[row, j], T.float32)
        T.reduce_sum(terms, total, dim=1)
        T.copy(total, Delta[block * rows])
    return Delta
