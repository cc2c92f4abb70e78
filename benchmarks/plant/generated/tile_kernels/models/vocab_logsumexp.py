# ruff: noqa: ANN001, ANN201, D103
"""The logarithm of each token's sum over a vocabulary, whose logits nobody keeps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def vocab_logsumexp(X, W):
    M, V, K = T.const("M, V, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((V, K), T.bfloat16)
    Out = T.empty((M,), T.float32)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tokens = T.alloc_shared((rows, depth), T.bfloat16)
        words = T.alloc_shared((columns, depth), T.bfloat16)
        logits = T.alloc_fragment((rows, columns), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.fill(top, -1e30)
        T.clear(total)
        for v in T.serial(V // columns):
            T.clear(logits)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
                T.copy(X[block * rows, k * depth], tokens)
                T.copy(W[v * columns, k * depth], words)
                T.gemm(tokens, words, logits, transpose_B=True)
            T.copy(top, before)
            T.reduce_max(logits, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                logits[i, j] = T.__exp2((logits[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(logits, part, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * T.__exp2((before[i] - top[i]) * 1.44269504) + part[i]
        for i in T.Parallel(rows):
            Out[block * rows + i] = top[i] + T.log(total[i])
    return Out
