"""Advice is not given where the program cannot take it: kernels as they are compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tileprof.lang as T
from tests.analyzer.compiled import compiled, remarks_of
from tests.analyzer.made import Made, found, program
from tileprof.ir.plain import plain_kernel


@T.prim_func
def searched(
    Table: T.Tensor((4096,), T.float32), Asked: T.Tensor((65536,), T.float32),
    Place: T.Tensor((65536,), T.int32),
):  # fmt: skip
    """Halving: what was read says where to read next."""
    with T.Kernel(64, threads=256) as block:
        low = T.alloc_fragment((1024,), T.int32)
        T.clear(low)
        for level in T.serial(12):
            for i in T.Parallel(1024):
                middle = low[i] + (2048 >> level)
                if Table[middle - 1] < Asked[block * 1024 + i]:
                    low[i] = middle
        T.copy(low, Place[block * 1024])


@T.prim_func
def in_a_ring(X: T.Tensor((4096, 4096), T.int8), Y: T.Tensor((4096, 4096), T.int8)):
    """Neighbours in a row that ends where it begins."""
    with T.Kernel(16, 1024, threads=256) as (bx, by):
        for i, j in T.Parallel(4, 256):
            x = bx * 256 + j
            Y[by * 4 + i, x] = X[by * 4 + i, x] + X[by * 4 + i, (x + 4095) % 4096]


@T.prim_func
def short_rows(X: T.Tensor((4096, 64), T.uint8), Y: T.Tensor((4096,), T.float32)):
    """Two bytes of each row at a time."""
    with T.Kernel(32, threads=128) as block:
        held = T.alloc_shared((128, 2), T.uint8)
        sums = T.alloc_fragment((128,), T.float32)
        T.clear(sums)
        for k in T.Pipelined(32, num_stages=2):
            T.copy(X[block * 128, k * 2], held)
            for i in T.Parallel(128):
                sums[i] += T.cast(held[i, 0], T.float32) * T.cast(held[i, 1], T.float32)
        T.copy(sums, Y[block * 128])


@T.prim_func
def across(X: T.Tensor((4096, 4096), T.float32), Y: T.Tensor((4096, 4096), T.float32)):
    """A transpose by one loop."""
    with T.Kernel(64, 64, threads=256) as (bx, by):
        for i, j in T.Parallel(64, 64):
            Y[by * 64 + i, bx * 64 + j] = X[bx * 64 + j, by * 64 + i]


def product(rows: int) -> Any:
    """A product whose tiles have 16 rows, as many as there are or fewer."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 1024), T.bfloat16), B: T.Tensor((1024, 1024), T.bfloat16),
        C: T.Tensor((rows, 1024), T.float32),
    ):  # fmt: skip
        with T.Kernel(16, rows // 16, threads=128) as (bx, by):
            a = T.alloc_shared((16, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            sums = T.alloc_fragment((16, 64), T.float32)
            T.clear(sums)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(A[by * 16, k * 64], a)
                T.copy(B[k * 64, bx * 64], b)
                T.gemm(a, b, sums)
            T.copy(sums, C[by * 16, bx * 64])

    return main


def said(kernel: Any, rule: str) -> list[str]:
    """Return how severe what a rule says of a kernel is, before anything was measured."""
    held = program(Made(remarks=remarks_of(compiled(kernel))))
    tiles = plain_kernel(kernel.compile().program.kernel)
    infos = tuple(replace(each, program=tiles) for each in held.tables.kernels)
    profile = replace(held, tables=replace(held.tables, kernels=infos))
    return [each.severity for each in found(profile, rule)]


@pytest.mark.parametrize(
    ("kernel", "severities"),
    [(searched, []), (in_a_ring, []), (short_rows, []), (across, ["warning"])],
    ids=["searched", "in a ring", "short rows", "across"],
)
def test_lanes_that_lie_apart_by_choice(kernel: Any, severities: list[str]) -> None:
    """Neither data, nor neighbours, nor a tile's short rows are; an order of loops is."""
    assert said(kernel, "uncoalesced-global") == severities


@pytest.mark.parametrize(("rows", "severities"), [(16, []), (1024, ["warning"])])
def test_tiles_that_could_have_more_rows(rows: int, severities: list[str]) -> None:
    """A tensor of 16 rows has no tile of the 64 that the faster instruction multiplies."""
    assert said(product(rows), "tensor-core-missed") == severities
