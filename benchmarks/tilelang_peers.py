"""The same matrix products in TileLang, in the configuration that is fastest for it.

Only imported where TileLang is installed; it compiles each kernel in about two seconds.
"""

from __future__ import annotations

from typing import Any

import tilelang
import tilelang.language as T


def matmul(
    m: int,
    n: int,
    k: int,
    layout: str = "NT",
    dtype: str = "bfloat16",
    tile: tuple[int, int, int] = (128, 256, 64),
    stages: int = 4,
    threads: int = 256,
) -> Any:
    """A compiled kernel `f(a, b, c)`."""
    bm, bn, bk = tile
    ta, tb = layout[0] == "T", layout[1] == "T"
    a_shape, b_shape = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    a_tile, b_tile = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))

    @T.prim_func
    def main(
        A: T.Tensor(a_shape, dtype),  # type: ignore[valid-type]
        B: T.Tensor(b_shape, dtype),  # type: ignore[valid-type]
        C: T.Tensor((m, n), "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(a_tile, dtype)
            B_shared = T.alloc_shared(b_tile, dtype)
            C_local = T.alloc_fragment((bm, bn), "float32")
            C_shared = T.alloc_shared((bm, bn), "bfloat16")
            T.use_swizzle(10)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if ta:
                    T.copy(A[ko * bk, by * bm], A_shared)
                else:
                    T.copy(A[by * bm, ko * bk], A_shared)
                if tb:
                    T.copy(B[bx * bn, ko * bk], B_shared)
                else:
                    T.copy(B[ko * bk, bx * bn], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=ta, transpose_B=tb)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * bm, bx * bn])

    return tilelang.compile(main)
