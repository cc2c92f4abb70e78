# ruff: noqa: ANN201, ANN202
"""Tiles that reach beyond their tensors, by IR."""

from __future__ import annotations

from typing import Any

import pytest

import tileprof.lang as T
from tileprof import ir
from tileprof.analyzer.padding import Outside, padded_ops


def printed(kernel: Any) -> str:
    """As a profile has it."""
    return ir.print_kernel(kernel.compile().program.kernel)


def product(M: int, N: int, K: int) -> Any:
    """In tiles of 64 × 64 × 32."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        C: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), T.float16)
            B_shared = T.alloc_shared((32, 64), T.float16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 64, k * 32], A_shared)
                T.copy(B[k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 64, bx * 64])

    return main


@T.prim_func
def guarded(X: T.Tensor((1000, 320), T.float32), Y: T.Tensor((1000, 320), T.float32)):
    """By its author."""
    with T.Kernel(125, threads=128) as by:
        for i, j in T.Parallel(8, 512):
            if j < 320:
                Y[by * 8 + i, j] = X[by * 8 + i, j] * 2


@T.prim_func
def windows(X: T.Tensor((64, 96), T.float32), Y: T.Tensor((64, 96), T.float32)):
    """Each element with the one before it, which the first has none of."""
    with T.Kernel(64, threads=96) as row:
        for j in T.Parallel(96):
            Y[row, j] = X[row, j] + X[row, j - 1]


@pytest.mark.parametrize(
    ("shape", "inside"),
    [
        ((128, 128, 64), None),
        ((128, 96, 64), 96 / 128),
        ((100, 128, 64), 100 / 128),
        ((100, 96, 64), 100 * 96 / 128**2),
        ((128, 128, 48), 48 / 64),
    ],
)
def test_products(shape: tuple[int, int, int], inside: float | None) -> None:
    """Rows, columns, and what is summed over, which counts once."""
    found = [each.inside for each in padded_ops(printed(product(*shape))) if each.op == "gemm"]
    assert found == ([pytest.approx(inside)] if inside else [])


def test_copies_of_tiles_say_what_they_reach_beyond() -> None:
    """Rows and columns of C."""
    found = {each.op: each.beyond for each in padded_ops(printed(product(100, 96, 64)))}
    assert found["copy C"] == (Outside("C", 0, 100, 128), Outside("C", 1, 96, 128))


def test_a_guard_of_the_author() -> None:
    """Lanes that it keeps out are outside too."""
    found = {each.op: each.inside for each in padded_ops(printed(guarded))}
    assert found == {"load X": 320 / 512, "store Y": 320 / 512}


def test_rims_of_windows_are_no_padding() -> None:
    """Nor is a bound that is known at launch only."""
    assert not padded_ops(printed(windows))
    unknown = printed(product(100, 96, 64)).replace("= mul", "= floordiv")
    assert not padded_ops(unknown)
    assert not padded_ops("")
