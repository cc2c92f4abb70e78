# ruff: noqa: ANN001, ANN201, D103
"""Relevance of documents for queries of eight words: counts of words, weighed and saturated."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def bm25_scores(Count, Length, Rarity, Query):
    V, N, Q = T.const("V, N, Q")
    Count: T.Tensor((V, N), T.int8)
    Length: T.Tensor((N,), T.float32)
    Rarity: T.Tensor((V,), T.float32)
    Query: T.Tensor((Q, 8), T.int32)
    Score = T.empty((Q, N), T.float32)
    documents = 1024
    k1, b = 1.2, 0.75

    with T.Kernel(T.ceildiv(N, documents), Q, threads=256) as (bx, q):
        drag = T.alloc_fragment((documents,), T.float32)
        score = T.alloc_fragment((documents,), T.float32)

        for i in T.Parallel(documents):
            n = T.min(bx * documents + i, N - 1)
            drag[i] = k1 * (1.0 - b + b * Length[n])
        T.clear(score)
        for k in T.serial(8):
            word = Query[q, k]
            for i in T.Parallel(documents):
                n = bx * documents + i
                if n < N:
                    count = T.cast(Count[word, n], T.float32)
                    score[i] += Rarity[word] * count * (k1 + 1.0) / (count + drag[i])
        T.copy(score, Score[q, bx * documents : (bx + 1) * documents])
    return Score
