# ruff: noqa: ANN001, ANN201, D103
"""Products of all pairs of a sample's features, as recommenders take them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def dot_interaction(X):
    batch, features, dim = T.const("batch, features, dim")
    X: T.Tensor((batch, features, dim), T.bfloat16)
    Out = T.empty((batch, features, features), T.float32)

    with T.Kernel(batch, threads=64) as sample:
        held = T.alloc_shared((features, dim), T.bfloat16)
        dots = T.alloc_fragment((features, features), T.float32)

        T.copy(X[sample, :, :], held)
        T.gemm(held, held, dots, transpose_B=True, clear_accum=True)
        T.copy(dots, Out[sample, :, :])
    return Out
