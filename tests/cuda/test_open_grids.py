"""Blocks that stay for many tiles of a grid whose extents only the launch knows."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import re
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import function
from tileprof import ir
from tileprof.compiler.codegen.ranges import UNKNOWN, interval
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.source import MOST_BLOCKS, MOST_TILES
from tileprof.compiler.cuda.target import RESIDENT_BLOCKS, find_target
from tileprof.emulator import emulate
from tileprof.errors import ExecutionError
from tileprof.runtime.cuda.launch import Function

HEADS, DIM, WIDE = 64, 64, 64


def weighted() -> Any:
    """For each query and key the weighted sum over heads of the positive products, as indexers of
    sparse attention have it."""
    B, M, N = T.dynamic("b"), T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def weighted(
        Q: T.Tensor((B, M, HEADS, DIM), "float16"),
        W: T.Tensor((B, M, HEADS), "float32"),
        K: T.Tensor((B, N, DIM), "float16"),
        Out: T.Tensor((B, M, N), "float32"),
    ) -> None:
        with T.Kernel(B, M, T.ceildiv(N, 2 * WIDE), threads=128) as (b, i, j):
            q = T.alloc_shared((HEADS, DIM), "float16")
            T.copy(Q[b, i, 0, 0], q)
            w = T.alloc_fragment((HEADS,), "float32")
            T.copy(W[b, i, 0], w)
            for at in T.Pipelined(2, num_stages=2):
                k = T.alloc_shared((WIDE, DIM), "float16")
                T.copy(K[b, j * 2 * WIDE + at * WIDE, 0], k)
                s = T.alloc_fragment((WIDE, HEADS), "float32")
                T.gemm(k, q, s, transpose_B=True, clear_accum=True)
                for h, x in T.Parallel(HEADS, WIDE):
                    s[x, h] = T.max(s[x, h], 0) * w[h]
                total = T.alloc_fragment((WIDE,), "float32")
                T.reduce_sum(s, total, dim=1)
                T.copy(total, Out[b, i, j * 2 * WIDE + at * WIDE])

    return weighted


@cache
def program() -> CudaProgram:
    """The kernel for a GPU with warp roles."""
    return compile_cuda(tileprof.compile(weighted()).program.kernel, find_target("sm_90a"))


@pytest.mark.spread("1-8-130")
@pytest.mark.parametrize(("b", "m", "n"), [(2, 11, 200), (3, 2, 64), (1, 8, 130)])
def test_every_tile_is_computed(b: int, m: int, n: int) -> None:
    """Also those of a last group of rows that is not whole, and of a last tile that is not."""
    made = program()
    assert made.source.launches[0].persistent
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal(s).astype(np.float16) for s in ((b, m, HEADS, DIM), (b, n, DIM)))
    w = rng.standard_normal((b, m, HEADS)).astype(np.float32)
    out = np.full((b, m, n), np.nan, np.float32)
    emulate(made.source, made.kernel, [q, w, k, out], resident=3, symbols={"b": b, "m": m, "n": n})
    products = np.einsum("bmhd,bnd->bmnh", q.astype(np.float32), k.astype(np.float32))
    expected = np.einsum("bmnh,bmh->bmn", np.maximum(products, 0), w)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-2)


def test_indices_of_tiles_take_32_bits() -> None:
    """No loop over tiles and no index of one is longer, and all divisions are without signs."""
    text = program().source.text
    assert "for (int64_t tile" not in text
    assert len(re.findall(r"for \(int tile\w* = ", text)) == 2
    assert len(re.findall(r"tp_floordiv<uint32_t>", text)) == 6
    assert "tp_floordiv<int64_t>" not in text
    assert not re.findall(r"const int64_t (?:b|i|j)(?:_\d+)? = ", text)


def test_bounds_of_a_grid_that_is_known_are_closer() -> None:
    """The author's loop over tiles of 8 · 32 rows has no group that is not whole."""

    @T.prim_func
    def product(
        A: T.Tensor((4096, 512), "float16"),
        B: T.Tensor((512, 4096), "float16"),
        C: T.Tensor((4096, 4096), "float16"),
    ) -> None:
        with T.Kernel(132, threads=128) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            for bx, by in T.Persistent([32, 32], 132, block):
                T.clear(c)
                for k in T.Pipelined(8, num_stages=2):
                    T.copy(A[bx * 128, k * 64], a)
                    T.copy(B[k * 64, by * 128], b)
                    T.gemm(a, b, c)
                T.copy(c, C[bx * 128, by * 128])

    text = compile_cuda(tileprof.compile(product).program.kernel, find_target("sm_90a")).source.text
    assert "for (int tile" in text
    assert "int64_t" not in text.partition("for (int tile")[2].partition("tp_mbarrier_wait")[0]


def test_a_slot_is_free_before_its_sums_are_used() -> None:
    """The producer need not wait for what threads make of a product."""
    (roles,) = (o for o in program().kernel.ops() if isinstance(o, ir.Roles))
    kinds = (ir.RingWait, ir.AsyncGemm, ir.Wait, ir.RingRelease, ir.Parallel, ir.Reduce)
    loop = next(
        o for o in ir.walk(roles.consumer) if isinstance(o, ir.For) and o.kind != "persistent"
    )
    inside = [type(o) for o in loop.body.ops if isinstance(o, kinds)]
    at = inside.index(ir.RingWait)
    assert inside[at:] == [ir.RingWait, ir.AsyncGemm, ir.Wait, ir.RingRelease, ir.Parallel,
                           ir.Reduce, ir.Parallel]  # fmt: skip


@pytest.mark.sweep
def test_machine_code_of_a_role() -> None:
    """What is the same for a warp is in uniform registers, products with weights are joined with
    the sums, and no division is called."""
    names = [each.name for each in function(program()).instructions]
    # 99 where the assembler takes the branch between roles for one inside of a warp.
    assert names.count("R2UR") <= 40
    assert names.count("FFMA") >= 16
    assert names.count("CALL") == 0


def test_more_tiles_than_have_31_bits_are_refused() -> None:
    """The number of the tile after the last one is known to fit."""
    held = mock.MagicMock(spec=Function)
    held._too_many = Function._too_many.__get__(held)
    held._resident = 132
    held.kernel = program().kernel
    held.spec = program().source.launches[0]
    assert MOST_TILES == MOST_BLOCKS - RESIDENT_BLOCKS
    assert Function.blocks(held, (1, 1, MOST_TILES)) == 132
    with pytest.raises(ExecutionError, match=r"a launch has at most 2,147,418,111"):
        Function.blocks(held, (1, 1, MOST_TILES + 1))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_bounds_of_quotient_and_rest(a: int, more: int, b: int, wider: int) -> None:
    """They hold for every pair of numbers in the bounds of the operands, 0 as divisor included."""
    left, right = ir.Value(ir.index, "a"), ir.Value(ir.index, "b")
    quotient = ir.Binary("floordiv", left, right)
    rest = ir.Binary("sub", left, ir.Binary("mul", quotient.result, right).result)
    modulo = ir.Binary("floormod", left, right)
    known = {left: (a, a + more), right: (b, b + wider)}
    found = [interval(o.result, known, {}) for o in (quotient, rest, modulo)]
    assert UNKNOWN not in found
    for x in {a, a + more // 2, a + more}:
        for y in {b, b + wider // 2, b + wider}:
            of = x // y if y else 0
            for value, (low, high) in zip((of, x - of * y, x % y if y else 0), found):
                assert low is not None
                assert high is not None
                assert low <= value <= high
