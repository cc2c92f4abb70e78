"""The same matrix products in TileLang, in the configurations that are fastest for it.

Only imported where TileLang is installed.  Annotations are evaluated by TileLang where they stand,
so they must not be postponed.
"""

from collections.abc import Sequence
from typing import Any

import tilelang
import tilelang.language as T
from tilelang_attention import attention_forward, mla_decode

__all__ = ["attention_forward", "compiled", "matmul", "matmul_int4", "matmul_int4_t", "mla_decode"]

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def compiled(programs: Sequence[Any], workers: int = 8) -> list[Any]:
    """Kernels that are called with all their tensors, the output last; compiled side by side."""
    return tilelang.par_compile(programs, target=TARGET, num_workers=workers)  # type: ignore[no-any-return]


def matmul(
    m: int,
    n: int,
    k: int,
    layout: str = "NT",
    policy: str = "Square",
    dtype: str = "bfloat16",
    tile: tuple[int, int, int] = (128, 256, 64),
    stages: int = 4,
    threads: int = 256,
) -> Any:
    """`f(a, b, c)`; the policy says how the warp groups share the tile."""
    bm, bn, bk = tile
    ta, tb = layout[0] == "T", layout[1] == "T"
    a_shape, b_shape = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    a_tile, b_tile = ((bk, bm) if ta else (bm, bk)), ((bn, bk) if tb else (bk, bn))
    warps = getattr(T.GemmWarpPolicy, policy)

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
                T.gemm(A_shared, B_shared, C_local, transpose_A=ta, transpose_B=tb, policy=warps)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * bm, bx * bn])

    return main


def int4(byte: Any, high: Any) -> Any:
    """The weight in one half of a byte, as in `gpu_kernels.int4`."""
    half = (T.Cast("uint32", byte) >> T.Cast("uint32", high * 4)) & T.uint32(15)
    return T.reinterpret(half | T.uint32(0x4B000000), "float32") - T.float32(8388616.0)


def matmul_int4(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int] = (256, 128, 128),
    stages: int = 2,
    threads: int = 256,
) -> Any:
    """`f(a, packed, scales, c)`; weights go through shared memory, in the way of its example
    `dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py`, which also names the tile."""
    bm, bn, bk = tile

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),  # type: ignore[valid-type]
        Packed: T.Tensor((n, k // 2), "uint8"),  # type: ignore[valid-type]
        Scales: T.Tensor((n,), "float32"),  # type: ignore[valid-type]
        C: T.Tensor((m, n), "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), "bfloat16")
            packed = T.alloc_shared((bn, bk // 2), "uint8")
            weights = T.alloc_fragment((bn, bk), "bfloat16")
            W_shared = T.alloc_shared((bn, bk), "bfloat16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            C_shared = T.alloc_shared((bm, bn), "bfloat16")
            T.clear(C_local)
            for ko in T.Pipelined(k // bk, num_stages=stages):
                T.copy(A[by * bm, ko * bk], A_shared)
                T.copy(Packed[bx * bn, ko * (bk // 2)], packed)
                for i, j in T.Parallel(bn, bk):
                    weights[i, j] = int4(packed[i, j // 2], j % 2)
                T.copy(weights, W_shared)
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(bm, bn):
                C_local[i, j] = C_local[i, j] * Scales[bx * bn + j]
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * bm, bx * bn])

    return main


def matmul_int4_t(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int] = (128, 128, 128),
    stages: int = 2,
    threads: int = 256,
) -> Any:
    """`f(a, packed, scales, c)` with `c` transposed, N×M: weights are multiplied from registers, in
    the way of its example `dequantize_gemm/example_dequant_gemm_fp4_hopper.py`."""
    bm, bn, bk = tile

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),  # type: ignore[valid-type]
        Packed: T.Tensor((n, k // 2), "uint8"),  # type: ignore[valid-type]
        Scales: T.Tensor((n,), "float32"),  # type: ignore[valid-type]
        C: T.Tensor((n, m), "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), "bfloat16")
            packed = T.alloc_shared((bn, bk // 2), "uint8")
            bytes_local = T.alloc_fragment((bn, bk // 2), "uint8")
            weights = T.alloc_fragment((bn, bk), "bfloat16")
            operand = T.alloc_fragment((bn, bk), "bfloat16")
            C_local = T.alloc_fragment((bn, bm), "float32")
            C_shared = T.alloc_shared((bn, bm), "bfloat16")
            T.annotate_layout({packed: tilelang.layout.make_swizzled_layout(packed)})
            T.clear(C_local)
            for ko in T.Pipelined(k // bk, num_stages=stages):
                T.copy(A[by * bm, ko * bk], A_shared)
                T.copy(Packed[bx * bn, ko * (bk // 2)], packed)
                T.copy(packed, bytes_local)
                for i, j in T.Parallel(bn, bk):
                    weights[i, j] = int4(bytes_local[i, j // 2], j % 2)
                T.copy(weights, operand)
                T.gemm(operand, A_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(bn, bm):
                C_local[i, j] = C_local[i, j] * Scales[bx * bn + i]
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[bx * bn, by * bm])

    return main
