# ruff: noqa: ANN001, ANN201, D103
"""How well documents fit a query: each word of it takes the best of a document's words."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def late_interaction(Query, Document):
    documents, words, dim = T.const("documents, words, dim")
    Query: T.Tensor((32, dim), T.bfloat16)
    Document: T.Tensor((documents, words, dim), T.bfloat16)
    Out = T.empty((documents,), T.float32)
    each = 4

    with T.Kernel(documents // each, threads=128) as block:
        query = T.alloc_shared((32, dim), T.bfloat16)
        document = T.alloc_shared((words, dim), T.bfloat16)
        fit = T.alloc_fragment((words, 32), T.float32)
        best = T.alloc_fragment((32,), T.float32)
        total = T.alloc_fragment((1,), T.float32)

        T.copy(Query, query)
        for n in T.Pipelined(each, num_stages=2):
            T.copy(Document[block * each + n, 0:words, :], document)
            T.gemm(document, query, fit, transpose_B=True, clear_accum=True)
            T.reduce_max(fit, best, dim=0)
            T.reduce_sum(best, total, dim=0)
            Out[block * each + n] = total[0]
    return Out
