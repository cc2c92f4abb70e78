# ruff: noqa: ANN001, ANN201, D103
"""The state that a chunk of linear attention adds: keys by values, decayed."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def outer_state(K, V, Decay):
    heads, length, dim = T.const("heads, length, dim")
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Decay: T.Tensor((heads, length), T.float32)
    S = T.empty((heads, T.ceildiv(length, 1024), dim, dim), T.float32)
    depth = 64

    with T.Kernel(T.ceildiv(length, 1024), heads, threads=128) as (chunk, head):
        key = T.alloc_shared((depth, dim), T.bfloat16)
        value = T.alloc_shared((depth, dim), T.bfloat16)
        scaled = T.alloc_shared((depth, dim), T.bfloat16)
        state = T.alloc_fragment((dim, dim), T.float32)

        T.clear(state)
        for k in T.Pipelined(1024 // depth, num_stages=3):
            T.copy(K[head, chunk * 1024 + k * depth : chunk * 1024 + (k + 1) * depth, :], key)
            T.copy(V[head, chunk * 1024 + k * depth : chunk * 1024 + (k + 1) * depth, :], value)
            for i, j in T.Parallel(depth, dim):
                factor = T.exp2(Decay[head, chunk * 1024 + k * depth + i])
                scaled[i, j] = T.cast(key[i, j], T.float32) * factor
            T.gemm(scaled, value, state, transpose_A=True)
        T.copy(state, S[head, chunk, :, :])
    return S
