# ruff: noqa: ANN001, ANN201, D103
"""Triangles of a graph over each of its edges: neighbours that both ends have, by rows of bits."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def triangle_counts(Bits, Edges, edges_per_block: int = 8, words_per_step: int = 256):
    V, W, E = T.const("V, W, E")
    Bits: T.Tensor((V, W), T.int32)
    Edges: T.Tensor((E, 2), T.int32)
    Shared = T.empty((E,), T.int32)

    with T.Kernel(T.ceildiv(E, edges_per_block), threads=256) as bx:
        ends = T.alloc_shared((edges_per_block, 2), T.int32)
        common = T.alloc_fragment((edges_per_block, words_per_step), T.int32)
        count = T.alloc_fragment((edges_per_block,), T.int32)

        T.copy(Edges[bx * edges_per_block, 0], ends)
        T.clear(common)
        for step in T.serial(T.ceildiv(W, words_per_step)):
            for e, w in T.Parallel(edges_per_block, words_per_step):
                word = step * words_per_step + w
                both = Bits[ends[e, 0], word] & Bits[ends[e, 1], word]
                common[e, w] += T.cast(T.popcount(both), T.int32)
        T.reduce_sum(common, count, dim=1)
        T.copy(count, Shared[bx * edges_per_block])
    return Shared
