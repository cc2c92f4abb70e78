# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202
"""Kernels whose pipelined loop stands in pieces: by the compiler's passes, or as its author wrote
it, rotated by hand and with masked turns apart."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.kernel_ir import TileKernel

__all__ = ["kernel_of", "read_kernel"]

_LONG = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16, "dim": 128}


@tileprof.jit
def rotated(Q, K, V, causal=False, block_N: int = 128):
    """(Q · Kᵀ) · V of keys that are seen, in tiles as attention has them, values a turn late."""
    batch, length, heads, dim, keys, groups = T.const("batch, length, heads, dim, keys, groups")
    Q: T.Tensor((batch, length, heads, dim), T.bfloat16)
    K: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    V: T.Tensor((batch, keys, groups, dim), T.bfloat16)
    Out = T.empty((batch, length, heads, dim), T.bfloat16)
    with T.Kernel(T.ceildiv(length, 128), batch * heads, threads=256) as (by, bz):
        q = T.alloc_shared((128, dim), T.bfloat16)
        k_s = T.alloc_shared((block_N, dim), T.bfloat16)
        v_s = T.alloc_shared((block_N, dim), T.bfloat16)
        scores = T.alloc_fragment((128, block_N), T.float32)
        weights = T.alloc_fragment((128, block_N), T.bfloat16)
        output = T.alloc_fragment((128, dim), T.float32)
        first, b, head = by * 128, bz // heads, bz % heads
        group = head // (heads // groups)

        def multiply(k, masked):
            T.copy(K[b, k * block_N : (k + 1) * block_N, group, :], k_s)
            T.gemm(q, k_s, scores, transpose_B=True, clear_accum=True)
            if masked:
                for i, j in T.Parallel(128, block_N):
                    if k * block_N + j > (first + i if causal else keys - 1):
                        scores[i, j] = 0

        def values(k):
            T.copy(V[b, k * block_N : (k + 1) * block_N, group, :], v_s)
            T.gemm(weights, v_s, output)

        T.copy(Q[b, first : first + 128, head, :], q)
        T.clear(output)
        whole, tiles = keys // block_N, T.ceildiv(keys, block_N)
        if causal:
            whole = T.min(whole, (first + 1) // block_N)
            tiles = T.min(tiles, T.ceildiv(first + 128, block_N))
        for k in T.Pipelined(T.min(tiles, 1), num_stages=2):
            multiply(k, causal)
            T.copy(scores, weights)
        for k in T.Pipelined(T.max(whole - 1, 0), num_stages=2):
            multiply(k + 1, False)
            values(k)
            T.copy(scores, weights)
        start = T.max(whole, 1)
        for k in T.Pipelined(tiles - start, num_stages=2):
            multiply(start + k, True)
            values(start + k - 1)
            T.copy(scores, weights)
        for k in T.Pipelined(T.min(tiles, 1), num_stages=2):
            values(tiles - 1 + k)
        T.copy(output, Out[b, first : first + 128, head, :])
    return Out


@cache
def kernel_of(name: str, passes: bool, **more: Any) -> ir.Kernel:
    """`attention` or `rotated` as a profile has it, or after all passes for an H200: with rings and
    roles."""
    attention = importlib.import_module("case_studies.attention").attention
    made = {"attention": attention, "rotated": rotated}[name]
    kernel = made.compile(**{**_LONG, **more}).program.kernel
    return compile_cuda(kernel, find_target("sm_90a")).kernel if passes else kernel


def read_kernel(name: str, passes: bool = False, **more: Any) -> TileKernel:
    """The same, as the analyzer sees it."""
    return ir.plain_kernel(kernel_of(name, passes, **more))
