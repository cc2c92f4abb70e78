"""Decoding over a paged cache: a new token a sequence, whose keys lie in pages anywhere in memory.

The few query heads that share a head of keys are the columns of the products and the keys their
rows, so that tensor cores work on nothing empty.  Each block takes a part of a sequence's pages
(`splits`), and a second launch combines the parts.  One part needs no second launch: right where
blocks for all sequences and heads of keys fill the GPU.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
import tileprof.lang as T
from case_studies.combining import combine

LOG2E = 1.4426950408889634
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""


@T.macro
def weigh(scores, top, factor, total, weights, output, rows, columns, dim):
    """Scores of one tile of keys become weights; what came before is scaled to the new maxima."""
    T.copy(top, factor)
    T.reduce_max(scores, top, dim=0, clear=False)
    for j in T.Parallel(columns):
        factor[j] = T.__exp2(factor[j] - top[j])
        total[j] *= factor[j]
    for i, j in T.Parallel(rows, columns):
        scores[i, j] = T.__exp2(scores[i, j] - top[j])
    T.reduce_sum(scores, total, dim=0, clear=False)
    for i, j in T.Parallel(rows, columns):
        weights[j, i] = scores[i, j]
    for i, j in T.Parallel(dim, columns):
        output[i, j] *= factor[j]


@tileprof.jit
def paged_attention(
    Q,
    K_pages,
    V_pages,
    Table,
    Lengths,
    splits: int = 8,
    stages: int = 3,
    threads: int = 128,
    keep: str | None = None,
):
    """`Table[b, n]`: where page n of sequence b lies."""
    batch, heads, dim = T.const("batch, heads, dim")
    pages, size, groups, most = T.const("pages, size, groups, most")
    Q: T.Tensor((batch, heads, dim), T.bfloat16)
    K_pages: T.Tensor((pages, size, groups, dim), T.bfloat16)
    V_pages: T.Tensor((pages, size, groups, dim), T.bfloat16)
    Table: T.Tensor((batch, most), T.int32)
    Lengths: T.Tensor((batch,), T.int32)
    Out = T.empty((batch, heads, dim), T.bfloat16)
    if splits > 1:
        Parts = T.alloc_global((splits, batch, heads, dim), T.float32)
        Lse = T.alloc_global((splits, batch, heads), T.float32)
    scale = dim**-0.5 * LOG2E
    near = heads // groups

    with T.Kernel(splits, groups, batch, threads=threads) as (part, group, b):
        Q_shared = T.alloc_shared((near, dim), T.bfloat16)
        K_shared = T.alloc_shared((size, dim), T.bfloat16)
        V_shared = T.alloc_shared((size, dim), T.bfloat16)
        weights = T.alloc_shared((near, size), T.bfloat16)
        scores = T.alloc_fragment((size, near), T.float32)
        output = T.alloc_fragment((dim, near), T.float32)
        top = T.alloc_fragment((near,), T.float32)
        factor = T.alloc_fragment((near,), T.float32)
        total = T.alloc_fragment((near,), T.float32)
        held = T.ceildiv(Lengths[b], size)
        share = T.ceildiv(held, splits)

        T.copy(Q[b, group * near : (group + 1) * near, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        for turn in T.Pipelined(T.min(share, held - part * share), num_stages=stages):
            n = part * share + turn
            T.copy(K_pages[Table[b, n], :, group, :], K_shared, eviction_policy=keep)
            T.copy(V_pages[Table[b, n], :, group, :], V_shared, eviction_policy=keep)
            T.gemm(K_shared, Q_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(size, near):
                seen = n * size + i < Lengths[b]
                scores[i, j] = T.if_then_else(seen, scores[i, j] * scale, -T.infinity(T.float32))
            weigh(scores, top, factor, total, weights, output, size, near, dim)
            T.gemm(V_shared, weights, output, transpose_A=True, transpose_B=True)
        for j in T.Parallel(near):
            factor[j] = 1 / T.max(total[j], 1e-30)
        if splits == 1:
            for i, j in T.Parallel(dim, near):
                Out[b, group * near + j, i] = output[i, j] * factor[j]
        else:
            for j in T.Parallel(near):
                Lse[part, b, group * near + j] = top[j] + T.log2(total[j])
            for i, j in T.Parallel(dim, near):
                Parts[part, b, group * near + j, i] = output[i, j] * factor[j]

    if splits > 1:
        with T.Kernel(groups, batch, threads=256) as (group, b):
            combine(Parts, Lse, Out, splits, near, dim, b, group * near)
    return Out


@tileprof.jit
def paged_attention_whole(
    Q,
    K_rows,
    V_rows,
    Table,
    Lengths,
    groups: int,
    splits: int = 2,
    stages: int = 2,
    threads: int = 128,
    rows: int = 64,
    keep: str | None = None,
):
    """All heads of keys in one block, whose products are of every query head with the keys of every
    head: what a block reads lies together in memory, and what the blocks of a sequence read at a
    time lies side by side; products that are not wanted are masked.
    `K_rows[page, key * groups + group]`."""
    batch, heads, dim = T.const("batch, heads, dim")
    pages, size, most = T.const("pages, size, most")
    Q: T.Tensor((batch, heads, dim), T.bfloat16)
    K_rows: T.Tensor((pages, size, dim), T.bfloat16)
    V_rows: T.Tensor((pages, size, dim), T.bfloat16)
    Table: T.Tensor((batch, most), T.int32)
    Lengths: T.Tensor((batch,), T.int32)
    Out = T.empty((batch, heads, dim), T.bfloat16)
    Parts = T.alloc_global((splits, batch, heads, dim), T.float32)
    Lse = T.alloc_global((splits, batch, heads), T.float32)
    scale = dim**-0.5 * LOG2E
    near, tiles = heads // groups, size // rows

    with T.Kernel(splits, batch, threads=threads) as (part, b):
        Q_shared = T.alloc_shared((heads, dim), T.bfloat16)
        K_shared = T.alloc_shared((rows, dim), T.bfloat16)
        V_shared = T.alloc_shared((rows, dim), T.bfloat16)
        weights = T.alloc_shared((heads, rows), T.bfloat16)
        scores = T.alloc_fragment((rows, heads), T.float32)
        output = T.alloc_fragment((dim, heads), T.float32)
        top = T.alloc_fragment((heads,), T.float32)
        factor = T.alloc_fragment((heads,), T.float32)
        total = T.alloc_fragment((heads,), T.float32)
        held = T.ceildiv(Lengths[b] * groups, rows)

        T.copy(Q[b, :, :], Q_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        for turn in T.Pipelined(T.ceildiv(held - part, splits), num_stages=stages):
            n = turn * splits + part
            page, at = Table[b, n // tiles], n % tiles * rows
            T.copy(K_rows[page, at : at + rows, :], K_shared, eviction_policy=keep)
            T.copy(V_rows[page, at : at + rows, :], V_shared, eviction_policy=keep)
            T.gemm(K_shared, Q_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, heads):
                alike = i % groups == j // near
                scores[i, j] = T.if_then_else(alike, scores[i, j] * scale, -T.infinity(T.float32))
            for i, j in T.Parallel(rows, heads):
                seen = n * rows + i < Lengths[b] * groups
                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            weigh(scores, top, factor, total, weights, output, rows, heads, dim)
            T.gemm(V_shared, weights, output, transpose_A=True, transpose_B=True)
        for j in T.Parallel(heads):
            Lse[part, b, j] = top[j] + T.log2(total[j])
            factor[j] = 1 / T.max(total[j], 1e-30)
        for i, j in T.Parallel(dim, heads):
            Parts[part, b, j, i] = output[i, j] * factor[j]

    with T.Kernel(groups, batch, threads=256) as (group, b):
        combine(Parts, Lse, Out, splits, near, dim, b, group * near)
    return Out


def reference(q, k_pages, v_pages, table, lengths) -> np.ndarray:
    """In float64, one sequence after the other; without keys, 0."""
    q, k_pages, v_pages = (np.asarray(x, np.float64) for x in (q, k_pages, v_pages))
    out = np.zeros_like(q)
    for b, length in enumerate(lengths):
        k, v = (x[table[b]].reshape(-1, *x.shape[2:])[:length] for x in (k_pages, v_pages))
        k, v = (np.repeat(x.transpose(1, 0, 2), q.shape[1] // x.shape[1], axis=0) for x in (k, v))
        scores = np.einsum("hd,hkd->hk", q[b], k) / np.sqrt(q.shape[-1])
        e = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=LOWEST))
        out[b] = np.einsum("hk,hkd->hd", e / e.sum(axis=-1, keepdims=True), v)
    return out


def inputs(lengths, heads, groups, dim, size: int = 64, seed: int = 0) -> list[np.ndarray]:
    """Random queries, pages in random order, and the table and lengths that find them."""
    generator = np.random.default_rng(seed)
    most = -(-max(lengths) // size)
    pages = len(lengths) * most
    shapes = (len(lengths), heads, dim), *[(pages, size, groups, dim)] * 2
    made = [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]
    table = generator.permutation(pages).reshape(len(lengths), most).astype(np.int32)
    return [*made, table, np.array(lengths, np.int32)]


def main(heads: int = 16, groups: int = 2, dim: int = 128) -> None:
    given = inputs((500, 64, 1, 130), heads, groups, dim)
    expected = reference(*given)
    rows = [x.reshape(len(x), -1, dim) for x in given[1:3]]
    for out in (
        paged_attention(*given, splits=3),
        paged_attention(*given, splits=1),
        paged_attention_whole(given[0], *rows, *given[3:], groups=groups),
    ):
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
    print(f"paged_attention of {len(given[-1])} sequences: agrees with NumPy")


if __name__ == "__main__":
    main()
