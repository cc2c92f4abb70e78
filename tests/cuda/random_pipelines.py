# mypy: ignore-errors
# ruff: noqa: ANN002, ANN202, B007, SIM102
"""Pipelined loops over tiles in many forms, and arguments for them on which results are exact.

A form is a set of words; each adds something to the loop that a lowering may get wrong:

    two      a second product of tiles of its own, into sums of its own
    same     a second product into the same sums
    chain    sums are rounded and multiplied again, as attention does
    computed an operand is computed in registers from a loaded tile
    before   an operand is loaded once, before the loop
    rows     sums of the rows of a tile, from shared memory
    touch    a loaded tile is changed in place before it is multiplied
    plain    a tile is written element by element
    skip     the product is left out where a number given at launch says so
    late     B is loaded after a barrier's worth of ordinary work
    outer    the loop runs twice, inside another one
    again    a second pipelined loop with the same tiles
    leave    the loop is left where a number given at launch says so
    next     the rest of a turn is left out likewise
    masked   sums are cleared where a condition on the turn does not hold
    guard    A, and B where it is plain, are written element by element under a condition
    shaped   operands and results are tensors under another shape
    scaled   products are scaled by rows and columns before they are added up
    adds     the sums of a last product are added to memory, turn by turn
    writes   the sums of a last product are stored, turn by turn, at one place
    narrow   results are rounded to float8, the largest number instead of larger ones
    rounded  results are rounded to the operands' type
    known    the number of turns is a constant
    turned   a chain's second product takes its tile transposed
    small    a tile of few rows is loaded turn by turn, and a row before the loop
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.passes import prove_bounds, simplify

WORDS = (
    "two", "same", "chain", "computed", "before", "rows", "touch", "plain", "skip", "late", "outer",
    "again", "leave", "next", "masked", "guard", "shaped", "scaled", "adds", "narrow", "turned",
    "known", "writes", "rounded", "small",
)  # fmt: skip


@dataclass(frozen=True)
class Pipeline:
    """A kernel of `C = A · B` over tiles, and what else its loop does."""

    m: int = 64
    n: int = 64
    k: int = 128
    tile: tuple[int, int, int] = (64, 64, 32)
    dtype: str = "bfloat16"
    ta: bool = False
    tb: bool = False
    stages: int = 2
    threads: int = 128
    words: frozenset[str] = frozenset()
    symbols: bool = False
    """M and K are known at launch only."""
    small: tuple[int, int] = (3, 16)
    """Rows and columns of the small tile; at most as many as a tile of the result has columns."""
    turns: int | None = None
    """Turns of the loop, as a number given at launch; as many as there are tiles by default."""

    @property
    def sums(self) -> str:
        """The type of sums."""
        return "int32" if self.dtype in ("int8", "uint8") else "float32"

    @property
    def count(self) -> int:
        """Turns of the loop."""
        return -(-self.k // self.tile[2]) if self.turns is None else self.turns

    @property
    def narrow(self) -> bool:
        """Whether the second result is the rounded sum of both."""
        return "narrow" in self.words and self.sums == "float32"

    @property
    def rounded(self) -> bool:
        """Whether the second result is that sum in the operands' type."""
        wide = self.dtype in ("bfloat16", "float16") and not {"adds", "writes"} & self.words
        return wide and "rounded" in self.words and not self.narrow

    def kernel(self) -> ir.Kernel:
        """After the common passes."""
        made = tileprof.compile(_pipeline(self)).program.kernel
        return prove_bounds(simplify(made))

    def extents(self) -> dict[str, int]:
        """Of the symbols."""
        return {"M": self.m, "K": self.k} if self.symbols else {}

    def arguments(self, seed: int = 0) -> list:
        """Whole numbers up to 2; outputs hold what must be overwritten."""
        rng = np.random.default_rng(seed)
        kind = ir.dtype(self.dtype).to_numpy()
        low = 0 if self.dtype == "uint8" else -2

        def small(*shape):
            return rng.integers(low, 3, shape).astype(kind)

        a = small(self.k, self.m) if self.ta else small(self.m, self.k)
        b = small(self.n, self.k) if self.tb else small(self.k, self.n)
        bn = self.tile[1]
        sums = ir.dtype(self.sums).to_numpy()
        blocks = -(-self.n // bn)
        outs = [np.full((self.m, self.n), 77, sums) for _ in range(2)]
        if self.narrow:
            outs[1] = outs[1].astype(ir.dtype("float8_e4m3").to_numpy())
        elif self.rounded:
            outs[1] = outs[1].astype(kind)
        if "shaped" in self.words:
            a, b, *outs = (x.reshape(-1) for x in (a, b, *outs))
        outs.append(np.full((self.m, blocks), 77, sums))
        return [a, b, small(bn, bn), self.count, *outs]


def _pipeline(p: Pipeline):
    bm, bn, bk = p.tile
    words, ta, tb, dtype, sums = p.words, p.ta, p.tb, p.dtype, p.sums
    M, K = (T.dynamic("M, K")) if p.symbols else (p.m, p.k)
    N = p.n
    a_tile = (bk, bm) if ta else (bm, bk)
    b_tile = (bn, bk) if tb else (bk, bn)
    both = "two" in words or "same" in words
    outer = 2 if "outer" in words else 1
    turned = "turned" in words
    writes = "writes" in words and not p.narrow
    adds = ("adds" in words and not p.narrow) or writes
    constant = "known" in words and not p.symbols
    a_shape, b_shape, c_shape = (K, M) if ta else (M, K), (N, K) if tb else (K, N), (M, N)
    shaped = "shaped" in words
    s_rows, s_columns = (min(extent, bn) for extent in p.small)
    d_type = "float8_e4m3" if p.narrow else dtype if p.rounded else sums

    @T.prim_func
    def main(
        A: T.Tensor((K * M,) if shaped else a_shape, dtype),
        B: T.Tensor((N * K,) if shaped else b_shape, dtype),
        W: T.Tensor((bn, bn), dtype),
        turns: T.int32,
        C: T.Tensor((M * N,) if shaped else c_shape, sums),
        D: T.Tensor((M * N,) if shaped else c_shape, d_type),
        R: T.Tensor((M, T.ceildiv(N, bn)), sums),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=p.threads) as (bx, by):
            if shaped:
                A, B, C, D = (
                    T.reshape(x, shape)
                    for x, shape in ((A, a_shape), (B, b_shape), (C, c_shape), (D, c_shape))
                )
            a = T.alloc_shared(a_tile, dtype)
            b = T.alloc_shared(b_tile, dtype)
            c = T.alloc_fragment((bm, bn), sums)
            d = T.alloc_fragment((bm, bn), sums)
            r = T.alloc_fragment((bm,), sums)
            if both or adds:
                b2 = T.alloc_shared(b_tile, dtype)
            if "chain" in words:
                w = T.alloc_shared((bn, bn), dtype)
                low = T.alloc_fragment((bm, bn), dtype)
            if "chain" in words or "scaled" in words:
                part = T.alloc_fragment((bm, bn), sums)
            if "scaled" in words:
                g = T.alloc_fragment((bm,), sums)
            if adds:
                last = T.alloc_fragment((bm, bn), sums)
            if p.narrow:
                least = T.alloc_fragment((bm, bn), "float8_e4m3")
            if "computed" in words:
                af = T.alloc_fragment((bm, bk), dtype)
            if "rows" in words:
                f = T.alloc_fragment((bm, bk), sums)
            if "before" in words or "chain" in words:
                w1 = T.alloc_shared((bn, bn), dtype)
                T.copy(W, w1)
            if "small" in words:
                s = T.alloc_shared((s_rows, s_columns), dtype)
                line = T.alloc_shared((s_columns,), dtype)
                T.copy(W[1, 0], line)
            n = p.count if constant else turns
            T.clear(c)
            T.clear(d)
            T.clear(r)
            for o in T.serial(outer):
                for k in T.Pipelined(n, num_stages=p.stages):
                    if "next" in words:
                        if k == n - 2:
                            continue
                    if "guard" in words:
                        for i, j in T.Parallel(*a_tile):
                            if ta:
                                kept = (i + k) % 3 != 0
                                a[i, j] = T.if_then_else(kept, A[k * bk + i, by * bm + j], 0)
                            elif (i + k) % 3 != 0:
                                a[i, j] = A[by * bm + i, k * bk + j]
                            else:
                                a[i, j] = 0
                    elif ta:
                        T.copy(A[k * bk, by * bm], a)
                    else:
                        T.copy(A[by * bm, k * bk], a)
                    if "late" in words:
                        for i in T.Parallel(bm):
                            r[i] = r[i] + T.cast(1, sums)
                    if "plain" in words:
                        for i, j in T.Parallel(*b_tile):
                            kept = T.all_of(i != k, n > 1) if "guard" in words else True
                            if tb:
                                b[i, j] = T.if_then_else(kept, B[bx * bn + i, k * bk + j], 0)
                            else:
                                b[i, j] = T.if_then_else(kept, B[k * bk + i, bx * bn + j], 0)
                    elif tb:
                        T.copy(B[bx * bn, k * bk], b)
                    else:
                        T.copy(B[k * bk, bx * bn], b)
                    if "touch" in words:
                        for i, j in T.Parallel(*a_tile):
                            a[i, j] = a[i, j] + a[i, j]
                    if both or adds:
                        if tb:
                            T.copy(B[bx * bn, k * bk], b2)
                        else:
                            T.copy(B[k * bk, bx * bn], b2)
                    if "skip" in words:
                        if k != n - 1:
                            T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
                    elif "computed" in words:
                        for i, j in T.Parallel(bm, bk):
                            if ta:
                                af[i, j] = T.cast(1, dtype) - a[j, i]
                            else:
                                af[i, j] = T.cast(1, dtype) - a[i, j]
                        T.gemm(af, b, c, transpose_B=tb)
                    elif "chain" in words:
                        T.copy(W, w)
                        T.gemm(a, b, part, transpose_A=ta, transpose_B=tb, clear_accum=True)
                        for i, j in T.Parallel(bm, bn):
                            low[i, j] = T.cast(T.min(T.max(part[i, j], -2), 2), dtype)
                        T.gemm(low, w, c, transpose_B=turned)
                        T.gemm(low, w1, d, transpose_B=turned)
                    elif "scaled" in words:
                        T.gemm(a, b, part, transpose_A=ta, transpose_B=tb, clear_accum=True)
                        for i in T.Parallel(bm):
                            g[i] = T.cast(W[i % bn, k % bn], sums)
                        for i, j in T.Parallel(bm, bn):
                            scale = g[i] * T.cast(W[k % bn, j], sums)
                            c[i, j] += part[i, j] * scale * T.cast(W[0, k % bn], sums)
                    else:
                        T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
                    if "two" in words:
                        T.gemm(a, b2, d, transpose_A=ta, transpose_B=tb)
                    elif "same" in words:
                        T.gemm(a, b2, c, transpose_A=ta, transpose_B=tb)
                    if adds:
                        T.gemm(a, b2, last, transpose_A=ta, transpose_B=tb, clear_accum=True)
                        if writes:
                            T.copy(last, D[by * bm, bx * bn])
                        else:
                            T.atomic_add(D[by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn], last)
                    if "rows" in words:
                        for i, j in T.Parallel(bm, bk):
                            if ta:
                                f[i, j] = T.cast(a[j, i], sums)
                            else:
                                f[i, j] = T.cast(a[i, j], sums)
                        T.reduce_sum(f, r, dim=1, clear=False)
                    if "small" in words:
                        T.copy(W[k % (bn - s_rows + 1), 0], s)
                        for i, j in T.Parallel(bm, bn):
                            each = T.cast(s[i % s_rows, j % s_columns], sums)
                            d[i, j] += each * T.cast(line[j % s_columns], sums)
                    if "masked" in words:
                        for i, j in T.Parallel(bm, bn):
                            kept = T.all_of(k * bk + j < by * bm + i + 100, k + n > 3)
                            c[i, j] = T.if_then_else(kept, c[i, j], 0)
                    if "leave" in words:
                        if k == n - 2:
                            break
            if "again" in words:
                for k in T.Pipelined(n, num_stages=p.stages):
                    if ta:
                        T.copy(A[k * bk, by * bm], a)
                    else:
                        T.copy(A[by * bm, k * bk], a)
                    if tb:
                        T.copy(B[bx * bn, k * bk], b)
                    else:
                        T.copy(B[k * bk, bx * bn], b)
                    T.gemm(a, b, d, transpose_A=ta, transpose_B=tb)
            if "before" in words:
                for i, j in T.Parallel(bm, bn):
                    d[i, j] = d[i, j] + T.cast(w1[j, j], sums)
            T.copy(c, C[by * bm, bx * bn])
            if p.narrow:
                for i, j in T.Parallel(bm, bn):
                    total = c[i, j] + d[i, j]
                    if "adds" in words:
                        total = T.if_then_else(total < -448, -448, total)
                        total = T.if_then_else(total > 448, 448, total)
                    else:
                        total = T.min(T.max(total, -448), 448)
                    least[i, j] = T.cast(total, "float8_e4m3")
                T.copy(least, D[by * bm, bx * bn])
            elif p.rounded:
                for i, j in T.Parallel(bm, bn):
                    d[i, j] += c[i, j]
                T.copy(d, D[by * bm, bx * bn])
            elif adds and not writes:
                T.atomic_add(D[by * bm : (by + 1) * bm, bx * bn : (bx + 1) * bn], d)
            elif not writes:
                T.copy(d, D[by * bm, bx * bn])
            for i in T.Parallel(bm):
                if by * bm + i < M:
                    R[by * bm + i, bx] = r[i]

    return main
