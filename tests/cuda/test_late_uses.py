# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, ANN201
"""Loops that use their last product's sums beside the first product of the next iteration."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import need_machine_code
from tileprof import ir
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.passes.overlap import overlap
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.emulator import emulate
from tileprof.remarks.products import UsedBehind
from tileprof.runtime.interpreter import InterpreterExecutable


def products(word=""):
    """Tiles of K times rows of Q, clipped, times Q, which stays in its place, or times K, whose
    slot is waited for: stored or added up for each tile."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), T.bfloat16),
        K: T.Tensor((6 * 64, 64), T.bfloat16),
        n: T.int32,
        Out: T.Tensor((6 * 64, 64), T.float32),
        C: T.Tensor((64, 64), T.float32),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), T.bfloat16)
            k_s = T.alloc_shared((64, 64), T.bfloat16)
            s = T.alloc_fragment((64, 64), T.float32)
            w = T.alloc_fragment((64, 64), T.bfloat16)
            o = T.alloc_fragment((64, 64), T.float32)
            T.copy(Q, q)
            T.clear(o)
            for k in T.Pipelined(n, num_stages=2):
                T.copy(K[k * 64, 0], k_s)
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    s[i, j] = T.min(T.max(s[i, j], -2), 2)
                T.copy(s, w)
                if word == "sums":
                    T.gemm(w, k_s, o)
                elif word == "added":
                    T.gemm(w, k_s, o, clear_accum=True)
                else:
                    T.gemm(w, q, o, clear_accum=True)
                if word == "changed":
                    for i, j in T.Parallel(64, 64):
                        o[i, j] = o[i, j] + T.cast(k, T.float32)
                if word == "tile":
                    for i, j in T.Parallel(64, 64):
                        o[i, j] = o[i, j] + T.cast(k_s[i, j], T.float32)
                if word == "added":
                    T.atomic_add(C, o)
                else:
                    T.copy(o, Out[k * 64, 0])

    return main


def made(word="", controls=None):
    """The kernel and what the compiler makes of it now."""
    kernel = prove_bounds(simplify(tileprof.compile(products(word)).traced))
    return kernel, compile_cuda(kernel, TARGETS["sm_90a"], controls)


lowered = cache(made)
"""The same, each once."""


def said(program):
    """What the remarks say of it."""
    return [r.decision for r in program.remarks if isinstance(r.decision, UsedBehind)]


@pytest.mark.spread
@pytest.mark.parametrize("word", ["", "changed", "added"])
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_the_same_result(word, turns):
    """However many iterations there are; every use is said to be late."""
    kernel, program = lowered(word)
    assert said(program) == [UsedBehind("s")]
    rng = np.random.default_rng(turns)
    q, k = (rng.integers(-1, 2, (r, 64)).astype(ml_dtypes.bfloat16) for r in (64, 384))
    expected = [np.zeros((r, 64), np.float32) for r in (384, 64)]
    InterpreterExecutable(kernel).run([q, k, turns, *expected], [])
    for seed in range(2):
        found = [np.zeros((r, 64), np.float32) for r in (384, 64)]
        emulate(program.source, program.kernel, [q, k, turns, *found], [], seed=seed)
        for mine, wanted in zip(found, expected):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("word", ["", "changed", "added"])
def test_the_order(word):
    """In the steady loop sums are used between the next iteration's first product and the wait for
    it, and none are under way where an iteration begins."""
    (roles,) = (o for o in lowered(word)[1].kernel.ops() if isinstance(o, ir.Roles))
    loops = [o for o in ir.walk(roles.consumer) if isinstance(o, ir.For)]
    orders = [[kind for o in loop.body.ops if (kind := _kind(o))] for loop in loops]
    steady = [x for x in orders if x[:2] == ["product", "threads"]]
    assert [[k for k in x if k != "threads"] for x in steady] == [["product", "wait"] * 2]
    assert steady[0][-2:] == ["product", "wait"]


def _kind(op):
    match op:
        case ir.AsyncGemm():
            return "product"
        case ir.Wait(queue="wgmma", pending=0):
            return "wait"
        case ir.Wait(queue="wgmma"):
            return "early wait"
        case ir.Parallel():
            return "threads"
    return ""


@pytest.mark.spread("changed")
@pytest.mark.parametrize("word", ["changed", "added"])
def test_products_are_not_run_one_by_one(word):
    """The assembler knows that nothing reads sums of a product under way, and spills nothing; nor
    does it write loops over the lanes that may store."""
    need_machine_code()
    cubin = lowered(word)[1].cubin
    assert not cubin.notes
    text = disassemble(cubin)
    assert "UTMAREDG" in text or "UTMASTG" in text
    assert ".U.ANY" not in text


def test_sums_of_all_iterations_stay(monkeypatch):
    """What adds up over iterations, or meets a tile that the next iteration loads, is not used
    late, nor without registers for it, unless it is forced; nothing is if it is forbidden."""
    assert not said(lowered("sums")[1])
    assert not said(lowered("tile")[1])
    assert not said(made(controls=Controls(overlap=False))[1])
    # The first product's 32 registers and the last one's are held at once, not one and the words.
    monkeypatch.setattr(overlap, "FRAGMENT_REGISTERS", 64)
    assert said(made()[1])
    monkeypatch.setattr(overlap, "FRAGMENT_REGISTERS", 63)
    assert not said(made()[1])
    assert said(made(controls=Controls(overlap=True))[1])
