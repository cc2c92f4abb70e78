# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202
"""Kernels whose blocks share tiles, for `test_multicast.py`."""

from functools import cache

import tileprof
import tileprof.lang as T
from tileprof import ir


@cache
def product(
    shape: tuple[int, int, int],
    order: str = "NT",
    block: tuple[int, int, int] = (64, 64, 64),
    stages: int = 2,
    threads: int = 128,
    axis: str = "rows",
    cluster_dims: tuple[int, ...] | None = None,
    check: bool = False,
) -> ir.Kernel:
    """C = A · B in bfloat16; `axis` says along which axis of the grid the rows of C lie."""
    M, N, K = shape
    bm, bn, bk = block
    ta, tb = order[0] == "T", order[1] == "T"
    swapped = axis == "columns"
    grid = [T.ceildiv(N, bn), T.ceildiv(M, bm)]

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if ta else (M, K), T.bfloat16),
        B: T.Tensor((N, K) if tb else (K, N), T.bfloat16),
        C: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(
            *(grid[::-1] if swapped else grid), threads=threads, cluster_dims=cluster_dims
        ) as (first, second):
            bx, by = (second, first) if swapped else (first, second)
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), T.bfloat16)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), T.bfloat16)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                if ta:
                    T.copy(A[k * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, k * bk], a)
                if tb:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            if check:
                # True, and not proved to be: an assertion that is proved goes.
                T.device_assert(T.clz(by) > 0)
            T.copy(c, C[by * bm, bx * bn])

    return _kernel(main)


@cache
def triangle(blocks: int, causal: bool) -> ir.Kernel:
    """O[i] = Σ_j Q[i] · K[j] over tiles of 64 × 64; all j, or those up to i."""

    @T.prim_func
    def main(
        Q: T.Tensor((blocks * 64, 64), T.bfloat16),
        K: T.Tensor((blocks * 64, 64), T.bfloat16),
        O: T.Tensor((blocks * 64, 64), T.bfloat16),  # noqa: E741
    ):
        with T.Kernel(blocks, threads=128) as i:
            q = T.alloc_shared((64, 64), T.bfloat16)
            k = T.alloc_shared((64, 64), T.bfloat16)
            o = T.alloc_fragment((64, 64), T.float32)
            T.copy(Q[i * 64, 0], q)
            T.clear(o)
            for j in T.Pipelined(i + 1 if causal else blocks, num_stages=2):
                T.copy(K[j * 64, 0], k)
                T.gemm(q, k, o, transpose_B=True)
            T.copy(o, O[i * 64, 0])

    return _kernel(main)


def _kernel(function) -> ir.Kernel:
    return tileprof.compile(function).program.kernel
