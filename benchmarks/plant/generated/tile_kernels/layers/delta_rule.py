# ruff: noqa: ANN001, ANN201, D103
"""A memory that each step corrects by what it should have said: the delta rule."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def delta_rule(Q, K, V, Rate):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.float32)
    K: T.Tensor((heads, length, dim), T.float32)
    V: T.Tensor((heads, length, dim), T.float32)
    Rate: T.Tensor((heads, length), T.float32)
    Out = T.empty((heads, length, dim), T.float32)
    steps = 16

    with T.Kernel(heads, threads=128) as head:
        query = T.alloc_shared((steps, dim), T.float32)
        key = T.alloc_shared((steps, dim), T.float32)
        value = T.alloc_shared((steps, dim), T.float32)
        state = T.alloc_fragment((dim, dim), T.float32)
        terms = T.alloc_fragment((dim, dim), T.float32)
        said = T.alloc_fragment((dim,), T.float32)

        T.clear(state)
        for k in T.Pipelined(length // steps, num_stages=2):
            T.copy(Q[head, k * steps : (k + 1) * steps, :], query)
            T.copy(K[head, k * steps : (k + 1) * steps, :], key)
            T.copy(V[head, k * steps : (k + 1) * steps, :], value)
            for t in T.serial(steps):
                for i, j in T.Parallel(dim, dim):
                    terms[i, j] = state[i, j] * key[t, j]
                T.reduce_sum(terms, said, dim=1)
                for i in T.Parallel(dim):
                    said[i] = (value[t, i] - said[i]) * Rate[head, k * steps + t]
                for i, j in T.Parallel(dim, dim):
                    state[i, j] += said[i] * key[t, j]
                for i, j in T.Parallel(dim, dim):
                    terms[i, j] = state[i, j] * query[t, j]
                T.reduce_sum(terms, said, dim=1)
                for i in T.Parallel(dim):
                    Out[head, k * steps + t, i] = said[i]
    return Out
