# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, E741, SIM102
"""Kernels whose tiles take different time, for `test_tile_order.py`."""

from functools import cache

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.passes import prove_bounds, simplify


@cache
def triangle(blocks: int, columns: int = 1, launches: int = 1) -> ir.Kernel:
    """O[i, h] = Σ_j Q[i] · K[j, h] for j up to i, in tiles of 64 × 64, and how often each tile was
    done; with two launches all of it twice."""

    @T.prim_func
    def main(
        Q: T.Tensor((blocks * 64, 64), T.bfloat16),
        K: T.Tensor((blocks * 64, columns * 64), T.bfloat16),
        O: T.Tensor((blocks * 64, columns * 64), T.bfloat16),
        Times: T.Tensor((blocks, columns), T.int32),
    ):
        def tile(i, h):
            q = T.alloc_shared((64, 64), T.bfloat16)
            k = T.alloc_shared((64, 64), T.bfloat16)
            o = T.alloc_fragment((64, 64), T.float32)
            T.copy(Q[i * 64, 0], q)
            T.clear(o)
            for j in T.Pipelined(i + 1, num_stages=2):
                T.copy(K[j * 64, h * 64], k)
                T.gemm(q, k, o, transpose_B=True)
            T.copy(o, O[i * 64, h * 64])
            for _ in T.Parallel(1):
                T.atomic_add(Times[i, h], 1)

        with T.Kernel(blocks, columns, threads=128) as (i, h):
            tile(i, h)
        if launches == 2:
            with T.Kernel(blocks, columns, threads=128) as (i, h):
                tile(i, h)

    return _kernel(main)


@cache
def tiles_of(turns: str, blocks: int = 1200) -> ir.Kernel:
    """A product of which the loop over K runs as `turns` says."""

    @T.prim_func
    def main(
        A: T.Tensor((64, blocks * 64), T.bfloat16),
        B: T.Tensor((blocks * 64, 64), T.bfloat16),
        Lengths: T.Tensor((blocks,), T.int32),
        C: T.Tensor((blocks, 64, 64), T.bfloat16),
    ):
        with T.Kernel(blocks, threads=128) as bx:
            a = T.alloc_shared((64, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)

            def step(k):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)

            if turns == "as many":
                for k in T.Pipelined(4, num_stages=2):
                    step(bx + k)
            elif turns == "from its own":
                for k in T.Pipelined(bx, bx + 4, num_stages=2):
                    step(k)
            elif turns == "to its own":
                for k in T.Pipelined(bx + 1, num_stages=2):
                    step(k)
            elif turns == "loaded":
                for k in T.Pipelined(Lengths[bx], num_stages=2):
                    step(k)
            elif turns == "loaded for all":
                for k in T.Pipelined(Lengths[0], num_stages=2):
                    step(k)
            elif turns == "none at all":
                if Lengths[bx] > 0:
                    for k in T.Pipelined(4, num_stages=2):
                        step(k)
            T.copy(c, C[bx, :, :])

    return _kernel(main)


def _kernel(function):
    return prove_bounds(simplify(tileprof.compile(function).traced))
