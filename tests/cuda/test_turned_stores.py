"""Stores of fragments into swizzled tiles: lanes that begin with another register."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.cost import wavefronts
from tileprof.compiler.cuda.layouts.turns import turn_of
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.layouts import SharedAccess


def product(twice: bool) -> Any:
    """Sums of a product, or twice as much, which are added to a tensor."""

    @T.prim_func
    def product(
        A: T.Tensor((64, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        Out: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            if twice:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] * 2
            T.atomic_add(Out, c)

    return product


@cache
def made(twice: bool = False) -> CudaProgram:
    """The kernel for a GPU with TMA."""
    kernel = tileprof.compile(product(twice)).program.kernel
    return compile_cuda(kernel, find_target("sm_90a"))


@pytest.mark.parametrize("twice", [False, True])
def test_each_element_has_its_place(twice: bool) -> None:
    """The text chooses between registers by lanes, and the remark counts what is left."""
    program = made(twice)
    assert "(tp_lane >> 1 & 1) ? c[" in program.source.text
    said = [r.decision for r in program.remarks if isinstance(r.decision, SharedAccess)]
    assert said[-1] == SharedAccess(8, 2, 2)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 64)) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    given = [x.astype(ml_dtypes.bfloat16) for x in (a, b)]
    emulate(program.source, program.kernel, [*given, out])
    np.testing.assert_array_equal(out, (a @ b) * (2 if twice else 1))


@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize("columns", [32, 64])
def test_all_requests_have_as_few(swizzle: int, columns: int) -> None:
    """Not the first alone: the wavefronts of every register, counted from the addresses."""
    layout = parse_layout(
        f"regs (0,1) (8,0) (0,8) (0,16){' (0,32)' * (columns > 32)} |"
        " lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)",
        (64, columns),
    )
    tile = parse_shared(f"swizzle={swizzle}", (64, columns), T.float32)
    loop = [o for o in made().kernel.ops() if isinstance(o, ir.Parallel)][-1]
    turn = turn_of(loop, layout, tile, 2)
    table = layout.table()[:32]
    plain = [wavefronts(tile.address(table[:, r]), 8)[0] for r in range(0, columns // 2, 2)]
    if turn is None:
        assert swizzle < 128
        assert {*plain} == {2}
        return
    exchanged = (np.arange(32) >> turn.lane_bit & 1)[:, None]
    (flip,) = (1 << bit for bit, digit in enumerate(layout.registers) if digit.step == turn.step)
    turned = [
        wavefronts(tile.address(np.where(exchanged, table[:, r ^ flip], table[:, r])), 8)[0]
        for r in range(0, columns // 2, 2)
    ]
    assert {*plain} == {4}
    assert {*turned} == {2}
