"""What a loop by cp.async needs in front of it: row numbers, and operands of all iterations."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import Watch, emulate
from tileprof.remarks.copies import CpAsync
from tileprof.remarks.layouts import BeginsBefore

ROWS, COLUMNS, CHUNKS, BLOCK = 16, 64, 4, 32
HEADS = 64
Form = Literal["plain", "variable", "written"]


def _weighted(form: Form) -> Any:
    """Gathered rows times a weight for each element.

    variable  the first chunk is in a variable that is set behind the load of the weights
    written   what is loaded before the loop is also stored, so that a tensor is written there
    """

    @T.prim_func
    def weighted(
        X: T.Tensor((96, COLUMNS), "float32"),
        At: T.Tensor((8, BLOCK), "int32"),
        W: T.Tensor((ROWS, COLUMNS), "float32"),
        First: T.Tensor((1,), "int32"),
        Out: T.Tensor((ROWS, COLUMNS), "float32"),
        Y: T.Tensor((BLOCK, COLUMNS), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            w = T.alloc_shared((ROWS, COLUMNS), "float32")
            x = T.alloc_shared((BLOCK, COLUMNS), "float32")
            y = T.alloc_fragment((BLOCK, COLUMNS), "float32")
            first = T.alloc_var("int32")
            T.clear(y)
            T.copy(W, w)
            if form == "written":
                T.copy(W, Out)
            if form == "variable":
                first = First[0]
            for k in T.Pipelined(CHUNKS, num_stages=2):
                for i, j in T.Parallel(BLOCK, COLUMNS):
                    if form == "variable":
                        x[i, j] = X[At[first + k, i], j]
                    else:
                        x[i, j] = X[At[k, i], j]
                for i, j in T.Parallel(BLOCK, COLUMNS):
                    y[i, j] += x[i, j] * w[i % ROWS, j]
            T.copy(y, Y)

    return weighted


@pytest.mark.parametrize(
    ("form", "target"),
    [("plain", "sm_80"), ("plain", "sm_90a"), ("variable", "sm_90a"), ("written", "sm_80")],
)
def test_row_numbers_overtake_what_they_do_not_depend_on(form: Form, target: str) -> None:
    """They are loaded before a tile that threads wait for, unless a variable or a tensor is written
    in between; the rows stay behind it."""
    kernel = tileprof.compile(_weighted(form)).program.kernel
    made = compile_cuda(kernel, TARGETS[target])
    ir.verify(made.kernel)
    told = [r.name for r in made.remarks if isinstance(r.decision, BeginsBefore)]
    assert told == (["At"] if form == "plain" else [])
    text = made.source.text
    numbers, weights, rows = map(text.index, ("At_ahead", "W_in", "tp_cp_async<16>"))
    assert (numbers < weights) == (form == "plain")
    assert weights < rows
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (96, COLUMNS)).astype(np.float32)
    w = random.integers(-4, 5, (ROWS, COLUMNS)).astype(np.float32)
    at = random.integers(0, 96, (8, BLOCK)).astype(np.int32)
    y, out, watch = np.zeros((BLOCK, COLUMNS), np.float32), np.zeros_like(w), Watch()
    emulate(made.source, kernel, [x, at, w, np.array([3], np.int32), out, y], watch=watch)
    start = 3 if form == "variable" else 0
    np.testing.assert_array_equal(y, x[at[start : start + CHUNKS]].sum(0) * np.tile(w, (2, 1)))
    assert not watch.found


Use = Literal["inside", "changed", "behind", "known"]


def _multiplied(use: Use) -> Any:
    """Products of Q with chunks of X.

    inside    as many chunks as are given at launch; Q is used by the products alone
    changed   Q is changed in front of the loop
    behind    Q is used behind a loop that may not run, too
    known     Q is used behind a loop that surely runs
    """
    count = CHUNKS if use == "known" else T.dynamic("count")

    @T.prim_func
    def multiplied(
        Q: T.Tensor((HEADS, COLUMNS), "float16"),
        X: T.Tensor((count, 32, COLUMNS), "float16"),
        Y: T.Tensor((HEADS, 32), "float32"),
        Z: T.Tensor((HEADS, COLUMNS), "float16"),
    ) -> None:
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((HEADS, COLUMNS), "float16")
            x = T.alloc_shared((32, COLUMNS), "float16")
            y = T.alloc_fragment((HEADS, 32), "float32")
            T.clear(y)
            T.copy(Q, q)
            if use == "changed":
                for i, j in T.Parallel(HEADS, COLUMNS):
                    q[i, j] = q[i, j] * 2
            for k in T.Pipelined(count, num_stages=2):
                T.copy(X[k, :, :], x)
                T.gemm(q, x, y, transpose_B=True)
            T.copy(y, Y)
            if use in ("behind", "known"):
                for i, j in T.Parallel(HEADS, COLUMNS):
                    Z[i, j] = q[HEADS - 1 - i, j]

    return multiplied


@pytest.mark.parametrize(
    ("use", "chunks", "target"),
    [("inside", 0, "sm_80"), ("inside", 4, "sm_80"), ("changed", 4, "sm_80"),
     ("behind", 0, "sm_90a"), ("behind", 4, "sm_90a"), ("known", 4, "sm_90a")],
)  # fmt: skip
def test_operand_of_all_iterations_comes_with_the_first_group(
    use: Use, chunks: int, target: str
) -> None:
    """Unless something touches it before the loop waits.  Where the loop does not run, it is there,
    too, before another tile lies in its bytes."""
    kernel = tileprof.compile(_multiplied(use)).program.kernel
    made = compile_cuda(kernel, TARGETS[target], Controls(warp_specialization=False))
    ir.verify(made.kernel)
    together = use != "changed"
    copies = {r.name: r.decision for r in made.remarks if r.op == "copy"}
    assert isinstance(copies["Q → q"], CpAsync) == together
    random = np.random.default_rng(chunks)
    q = random.integers(-2, 3, (HEADS, COLUMNS)).astype(np.float16)
    x = random.integers(-2, 3, (chunks, 32, COLUMNS)).astype(np.float16)
    y, z, watch = np.zeros((HEADS, 32), np.float32), np.zeros_like(q), Watch()
    symbols = {} if use == "known" else {"count": chunks}
    factor = 2 if use == "changed" else 1
    products = np.einsum("ij,kmj->im", q.astype(np.float32) * factor, x.astype(np.float32))
    for seed in range(3):
        emulate(made.source, kernel, [q, x, y, z], symbols, seed=seed, watch=watch)
        np.testing.assert_array_equal(y, products)
        if use in ("behind", "known"):
            np.testing.assert_array_equal(z, q[::-1])
    assert not watch.found
