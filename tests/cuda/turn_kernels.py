# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, SIM102
"""Loops whose warp groups could take turns, in many forms, for tests of what becomes of them.

Each computes Out = Σ exp2(Q · Kᵀ) · V over tiles of keys, as often as its loops come to them.
A form is a set of words:

    ahead    scores of a tile are issued with the values of the one before (products in a row)
    late     V is loaded before K
    outer    the loop runs twice, inside another one
    again    a second loop over the same tiles
    either   the loop stands in a branch
    meet     all warp groups exchange something in shared memory
    apart    each product has exponentials of its own
    touch    scores are changed before values are multiplied, where a number of the launch says so
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

TILE = 64


def kernel(words=frozenset(), groups=2, tiles=3, stages=2, dim=64, blocks=1, policy="FullRow"):
    """A kernel of so many tiles of keys and blocks of rows; `Limits` bounds its loops at launch."""
    rows, keys, along = 64 * groups, TILE * tiles, getattr(T.GemmWarpPolicy, policy)

    @T.prim_func
    def turned(
        Q: T.Tensor((blocks * rows, dim), "bfloat16"),
        K: T.Tensor((keys, dim), "bfloat16"),
        V: T.Tensor((keys, dim), "bfloat16"),
        Limits: T.Tensor((2,), "int32"),
        Out: T.Tensor((blocks * rows, dim), "float32"),
    ):
        with T.Kernel(blocks, threads=128 * groups) as bx:
            q = T.alloc_shared((rows, dim), "bfloat16")
            k_s = T.alloc_shared((TILE, dim), "bfloat16")
            v_s = T.alloc_shared((TILE, dim), "bfloat16")
            told = T.alloc_shared((rows,), "float32")
            s = T.alloc_fragment((rows, TILE), "float32")
            w = T.alloc_fragment((rows, TILE), "bfloat16")
            o = T.alloc_fragment((rows, dim), "float32")
            extra = T.alloc_fragment((rows,), "float32")

            @T.macro
            def load_k(t):
                T.copy(K[t * TILE, 0], k_s)

            @T.macro
            def load_v(t):
                T.copy(V[t * TILE, 0], v_s)

            @T.macro
            def scores():
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True, policy=along)

            @T.macro
            def values():
                T.gemm(w, v_s, o, policy=along)

            @T.macro
            def exponentials():
                for i, j in T.Parallel(rows, TILE):
                    s[i, j] = T.exp2(s[i, j])
                if "meet" in words:
                    T.reduce_max(s, extra, dim=1)
                    T.copy(extra, told)
                    for i, j in T.Parallel(rows, TILE):
                        s[i, j] += 0 * told[rows - 1 - i]
                T.copy(s, w)

            @T.macro
            def plain(count):
                for t in T.Pipelined(count, num_stages=stages):
                    if "late" in words:
                        load_v(t)
                    load_k(t)
                    if "late" not in words:
                        load_v(t)
                    scores()
                    exponentials()
                    values()
                    if "apart" in words:
                        for i, j in T.Parallel(rows, dim):
                            o[i, j] = T.log2(T.exp2(o[i, j]))

            @T.macro
            def ahead(count):
                for t in T.Pipelined(T.min(count, 1), num_stages=stages):
                    load_k(t)
                    scores()
                    exponentials()
                for t in T.Pipelined(T.max(count - 1, 0), num_stages=stages):
                    load_k(t + 1)
                    scores()
                    if "touch" in words:
                        if Limits[1] > 5:
                            for i, j in T.Parallel(rows, TILE):
                                s[i, j] *= 2
                    load_v(t)
                    values()
                    exponentials()
                for t in T.Pipelined(T.min(count, 1), num_stages=stages):
                    load_v(count - 1 + t)
                    values()

            @T.macro
            def once(count):
                if "ahead" in words:
                    ahead(count)
                else:
                    plain(count)

            T.copy(Q[bx * rows, 0], q)
            T.clear(o)
            count = T.min(Limits[0], tiles)
            if "outer" in words:
                for _ in T.serial(2):
                    once(count)
            elif "either" in words:
                if Limits[1] > 0:
                    once(count)
            else:
                once(count)
            if "again" in words:
                once(T.min(Limits[1], tiles))
            T.copy(o, Out[bx * rows, 0])

    return tileprof.compile(turned).program.kernel


def arguments(groups=2, tiles=3, dim=64, blocks=1, limits=(3, 3)):
    """Small numbers, so that sums of exponentials stay small."""
    generator = np.random.default_rng(0)
    sizes = [(64 * groups * blocks, dim), (TILE * tiles, dim), (TILE * tiles, dim)]
    given = [(generator.standard_normal(s) / 4).astype(ml_dtypes.bfloat16) for s in sizes]
    return [*given, np.array(limits, np.int32), np.zeros(sizes[0], np.float32)]


def reference(given, words=frozenset()):
    """In float64, with weights rounded as the kernel does."""
    q, k, v = (np.asarray(x, np.float64) for x in given[:3])

    def part(count):
        n = TILE * min(int(count), len(k) // TILE)
        weights = np.exp2(q @ k[:n].T).astype(ml_dtypes.bfloat16).astype(np.float64)
        return weights @ v[:n]

    first, second = given[3]
    total = part(first) * (2 if "outer" in words else 1)
    if "either" in words and "outer" not in words and second <= 0:
        total = total * 0
    return total + (part(second) if "again" in words else 0)


def resident(words=frozenset()):
    """A product of matrices in a loop with loads, then a loop with exponentials whose tiles stay.

    leave    that loop may be left early
    skip     an iteration may end early
    around   it stands in a loop that may be left early, where a number of the launch says so
    found    how often it runs is a number that each thread has
    alone    whether it runs is one
    told     how often it runs is read from shared memory
    """

    @T.prim_func
    def held(
        Q: T.Tensor((128, 64), "bfloat16"),
        K: T.Tensor((192, 64), "bfloat16"),
        V: T.Tensor((64, 64), "bfloat16"),
        Limits: T.Tensor((2,), "int32"),
        Out: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            q = T.alloc_shared((128, 64), "bfloat16")
            k_s = T.alloc_shared((64, 64), "bfloat16")
            v_s = T.alloc_shared((64, 64), "bfloat16")
            n_s = T.alloc_shared((1,), "int32")
            s = T.alloc_fragment((128, 64), "float32")
            w = T.alloc_fragment((128, 64), "bfloat16")
            o = T.alloc_fragment((128, 64), "float32")
            count = T.alloc_local((1,), "int32")

            @T.macro
            def turned(n):
                for t in T.serial(n):
                    T.gemm(q, v_s, s, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(128, 64):
                        s[i, j] = T.exp2(s[i, j] + t)
                    T.copy(s, w)
                    if "leave" in words:
                        if t == Limits[1]:
                            break
                    if "skip" in words:
                        if t == Limits[1]:
                            continue
                    T.gemm(w, v_s, o)

            T.copy(Q[0, 0], q)
            T.copy(V[0, 0], v_s)
            T.clear(o)
            for t in T.Pipelined(3, num_stages=2):
                T.copy(K[t * 64, 0], k_s)
                T.gemm(q, k_s, o)
            n = Limits[0]
            count[0] = Limits[0]
            if "found" in words:
                n = count[0]
            if "told" in words:
                for i in T.Parallel(1):
                    n_s[i] = Limits[0]
                n = n_s[0]
            if "around" in words:
                for again in T.serial(3):
                    turned(n)
                    if again == Limits[1]:
                        break
            elif "alone" in words:
                if count[0] > 1:
                    turned(n)
            else:
                turned(n)
            T.copy(o, Out[0, 0])

    return tileprof.compile(held).program.kernel
