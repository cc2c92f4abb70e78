# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, ANN201
"""Loops whose last product runs under the arithmetic of the next iteration."""

from functools import cache
from itertools import takewhile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import Joined
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.passes.overlap import overlap
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.remarks.loops import FragmentRegisters, InOrder, Overlap
from tileprof.remarks.products import IssuedBehind
from tileprof.runtime.interpreter import InterpreterExecutable


def two_products(word="", stages=2):
    """Rows of Q times tiles of K, clipped, times tiles of V; a word changes one thing."""

    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), T.bfloat16),
        K: T.Tensor((6 * 64, 64), T.bfloat16),
        V: T.Tensor((6 * 64, 64), T.bfloat16),
        n: T.int32,
        C: T.Tensor((64, 64), T.float32),
        R: T.Tensor((64,), T.float32),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), T.bfloat16)
            k_s = T.alloc_shared((64, 64), T.bfloat16)
            v_s = T.alloc_shared((64, 64), T.bfloat16)
            s = T.alloc_fragment((64, 64), T.float32)
            w = T.alloc_fragment((64, 64), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            r = T.alloc_fragment((64,), T.float32)
            T.copy(Q, q)
            T.clear(c)
            T.clear(r)
            T.clear(s)
            first = 1 if word == "from one" else 0
            for k in T.Pipelined(first, n + first, num_stages=stages):
                at = (k - first) * 64
                T.copy(K[at, 0], k_s)
                if word != "one tile":
                    T.copy(V[at, 0], v_s)
                if word == "adds":
                    T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                    T.gemm(q, k_s, s)
                elif word == "keeps":
                    T.gemm(q, k_s, s, transpose_B=True)
                else:
                    T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                if word != "bare":
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = T.min(T.max(s[i, j], -2), 2)
                    T.reduce_sum(s, r, dim=1, clear=False)
                T.copy(s, w)
                if word == "scales":
                    for i, j in T.Parallel(64, 64):
                        c[i, j] = c[i, j] * T.min(r[i] * r[i], 1)
                if word == "one tile":
                    T.gemm(w, k_s, c)
                else:
                    T.gemm(w, v_s, c)
                if word == "after":
                    for i, j in T.Parallel(64, 64):
                        c[i, j] = c[i, j] + 1
                if word == "beside":
                    for i in T.Parallel(64):
                        r[i] = r[i] + 1
                if word == "leaves out" and k != n - 2:
                    T.gemm(w, v_s, c)
            T.copy(c, C)
            T.copy(r, R)

    return main


def made(word="", stages=2, controls=None):
    """The kernel and what the compiler makes of it now."""
    kernel = prove_bounds(simplify(tileprof.compile(two_products(word, stages)).traced))
    return kernel, compile_cuda(kernel, TARGETS["sm_90a"], controls)


lowered = cache(made)
"""The same, each once."""


def rotated(program):
    """Whether a loop starts products into two sums before it computes anything."""
    for loop in ir.walk(program.kernel.body):
        if not isinstance(loop, ir.For):
            continue
        kinds = [o for o in loop.body.ops if isinstance(o, ir.AsyncGemm | ir.Parallel | ir.Reduce)]
        run = list(takewhile(lambda o: isinstance(o, ir.AsyncGemm), kinds))
        if len({o.c for o in run}) > 1 and len(run) < len(kinds):
            return True
    return False


WORDS = ("", "scales", "adds", "from one", "after", "beside", "keeps")


@cache
def joined():
    """The programs of all words, as one text."""
    return Joined(lowered(word, stages)[1].source for word in WORDS for stages in (2, 3))


@pytest.mark.spread
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_the_same_result(word, turns):
    """However many turns there are, with loads and products that come late."""
    rng = np.random.default_rng(turns)
    for stages in (2, 3):
        kernel, program = lowered(word, stages)
        given = [
            rng.integers(-1, 2, p.type.shape).astype(ml_dtypes.bfloat16) for p in kernel.params[:3]
        ]
        expected = [np.zeros(p.type.shape, np.float32) for p in kernel.params[4:]]
        InterpreterExecutable(kernel).run([*given, turns, *expected], [])
        for seed in range(2):
            found = [np.full(p.type.shape, np.nan, np.float32) for p in kernel.params[4:]]
            arguments = [*given, turns, *found]
            joined().emulate(program.source, program.kernel, arguments, seed=seed)
            for mine, wanted in zip(found, expected):
                np.testing.assert_array_equal(mine, wanted)


@pytest.mark.spread("scales", "adds")
@pytest.mark.parametrize("word", ["", "scales", "adds", "from one"])
def test_rotated(word):
    """Both products of the steady loop are issued before what lies between them."""
    _, program = lowered(word)
    assert rotated(program)
    assert not rotated(lowered(word, controls=Controls(overlap=False))[1])
    said = [r.decision for r in program.remarks if isinstance(r.decision, IssuedBehind)]
    assert said == [IssuedBehind("s")]


@pytest.mark.parametrize(
    ("word", "op", "line", "reason"),
    [
        (
            "one tile",
            "copy",
            "T.copy(K[at, 0], k_s)",
            "it and the last product of the iteration before both use `k_s`",
        ),
        (
            "after",
            "parallel",
            "for i, j in T.Parallel(64, 64):",
            "it needs `c` in the same iteration",
        ),
        (
            "beside",
            "parallel",
            "for i in T.Parallel(64):",
            "the last product runs beside it as it is written",
        ),
        ("bare", "gemm", "T.gemm(w, v_s, c)", "nothing is computed that it could run beside"),
        (
            "leaves out",
            "if",
            'if word == "leaves out" and k != n - 2:',
            "it must stay where it is",
        ),
    ],
)
def test_what_prevents_it(word, op, line, reason):
    """A remark names the op and its line."""
    _, program = lowered(word)
    assert not rotated(program)
    (said,) = [r for r in program.remarks if r.op == "for"]
    assert said.decision == InOrder()
    ((candidate, kept),) = ((each.candidate, each.reason) for each in said.rejected)
    assert candidate == Overlap()
    assert (kept.op, str(kept.why)) == (op, reason)
    assert Path(__file__).read_text().splitlines()[kept.line - 1].strip() == line


def test_registers(monkeypatch):
    """Fragments that fill a thread's registers are not held longer, unless it is forced."""
    monkeypatch.setattr(overlap, "FRAGMENT_REGISTERS", 32 + 16 + 32)
    assert rotated(made()[1])
    monkeypatch.setattr(overlap, "FRAGMENT_REGISTERS", 32 + 16 + 31)
    _, program = made()
    assert not rotated(program)
    (said,) = [r for r in program.remarks if r.op == "for"]
    assert list(said.reasons(FragmentRegisters)) == [FragmentRegisters(80)]
    assert rotated(made(controls=Controls(overlap=True))[1])
