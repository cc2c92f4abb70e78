"""First loads of a loop that overtake what a block would wait for in front of it."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import Watch, emulate
from tileprof.remarks.copies import CpAsync
from tileprof.remarks.loops import BeginsBefore

ROWS, COLUMNS, CHUNKS = 16, 64, 4
Form = Literal["plain", "variable", "written", "overlaid"]


def _weighted(form: Form) -> Any:
    """Chunks of X times a weight for each element.

    variable  the first chunk is in a variable that is set behind the load of the weights
    written   what is loaded before the loop is also stored, so that tensors are written there
    overlaid  what is loaded before the loop is large, and no longer needed in it
    """
    rows = 640 if form == "overlaid" else ROWS

    @T.prim_func
    def weighted(
        X: T.Tensor((8, 256, COLUMNS), "float32"),
        W: T.Tensor((rows, COLUMNS), "float32"),
        First: T.Tensor((1,), "int32"),
        Out: T.Tensor((rows, COLUMNS), "float32"),
        Y: T.Tensor((256, COLUMNS), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            w = T.alloc_shared((rows, COLUMNS), "float32")
            x = T.alloc_shared((256, COLUMNS), "float32")
            y = T.alloc_fragment((256, COLUMNS), "float32")
            v = T.alloc_fragment((COLUMNS,), "float32")
            first = T.alloc_var("int32")
            T.clear(y)
            T.copy(W, w)
            if form == "written":
                T.copy(W, Out)
            if form == "variable":
                first = First[0]
            if form == "overlaid":
                for j in T.Parallel(COLUMNS):
                    v[j] = w[0, j] - w[rows - 1, j]
            for k in T.Pipelined(CHUNKS, num_stages=2):
                if form == "variable":
                    T.copy(X[first + k, :, :], x)
                else:
                    T.copy(X[k, :, :], x)
                for i, j in T.Parallel(256, COLUMNS):
                    if form == "overlaid":
                        y[i, j] += x[i, j] * v[j]
                    else:
                        y[i, j] += x[i, j] * w[i % ROWS, j]
            T.copy(y, Y)

    return weighted


def _compiled(form: Form, target: str) -> tuple[Any, CudaProgram]:
    kernel = tileprof.compile(_weighted(form)).program.kernel
    return kernel, compile_cuda(kernel, TARGETS[target])


def _passed(made: CudaProgram) -> list[BeginsBefore]:
    return [r.decision for r in made.remarks if isinstance(r.decision, BeginsBefore)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["plain", "variable", "written", "overlaid"])
def test_first_loads_overtake_what_they_do_not_depend_on(form: Form, target: str) -> None:
    """They begin before a tile that threads load, unless a variable or a tensor is written in
    between, or tiles would no longer share memory."""
    kernel, made = _compiled(form, target)
    text = made.source.text
    assert bool(_passed(made)) == (form == "plain")
    begins = text.index("tp_cp_async<16>") < text.index("tp_get_global<4>(W_in")
    assert begins == (form == "plain")
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (8, 256, COLUMNS)).astype(np.float32)
    w = random.integers(-4, 5, kernel.params[1].type.shape).astype(np.float32)
    y, out, watch = np.zeros((256, COLUMNS), np.float32), np.zeros_like(w), Watch()
    emulate(made.source, kernel, [x, w, np.array([3], np.int32), out, y], watch=watch)
    start = 3 if form == "variable" else 0
    chunks = x[start : start + CHUNKS].sum(0)
    factors = w[0] - w[-1] if form == "overlaid" else np.tile(w, (16, 1))
    np.testing.assert_array_equal(y, chunks * factors)
    assert not watch.found


Use = Literal["inside", "changed", "behind", "known"]


def _multiplied(use: Use) -> Any:
    """Products of Q with chunks of X.

    inside    as many chunks as are given at launch; Q is used by the products alone
    changed   Q is changed in front of the loop
    behind    Q is used behind a loop that may not run
    known     Q is used behind a loop that surely runs
    """
    count = CHUNKS if use == "known" else T.dynamic("count")

    @T.prim_func
    def multiplied(
        Q: T.Tensor((ROWS, COLUMNS), "float16"),
        X: T.Tensor((count, 32, COLUMNS), "float16"),
        Y: T.Tensor((ROWS, 32), "float32"),
        Z: T.Tensor((ROWS, COLUMNS), "float16"),
    ) -> None:
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((ROWS, COLUMNS), "float16")
            x = T.alloc_shared((32, COLUMNS), "float16")
            y = T.alloc_fragment((ROWS, 32), "float32")
            T.clear(y)
            T.copy(Q, q)
            if use == "changed":
                for i, j in T.Parallel(ROWS, COLUMNS):
                    q[i, j] = q[i, j] * 2
            for k in T.Pipelined(count, num_stages=2):
                T.copy(X[k, :, :], x)
                T.gemm(q, x, y, transpose_B=True)
            T.copy(y, Y)
            if use in ("behind", "known"):
                for i, j in T.Parallel(ROWS, COLUMNS):
                    Z[i, j] = q[ROWS - 1 - i, j]

    return multiplied


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("use", "chunks"),
    [("inside", 0), ("inside", 4), ("changed", 4), ("behind", 0), ("behind", 4), ("known", 4)],
)
def test_operand_of_all_iterations_comes_with_the_first_group(
    use: Use, chunks: int, target: str
) -> None:
    """Unless something touches it before the loop waits, or the loop may not run."""
    kernel = tileprof.compile(_multiplied(use)).program.kernel
    made = compile_cuda(kernel, TARGETS[target])
    together = use in ("inside", "known")
    copies = {r.name: r.decision for r in made.remarks if r.op == "copy"}
    assert isinstance(copies["Q → q"], CpAsync) == together
    random = np.random.default_rng(chunks)
    q = random.integers(-2, 3, (ROWS, COLUMNS)).astype(np.float16)
    x = random.integers(-2, 3, (chunks, 32, COLUMNS)).astype(np.float16)
    y, z, watch = np.zeros((ROWS, 32), np.float32), np.zeros_like(q), Watch()
    symbols = {} if use == "known" else {"count": chunks}
    emulate(made.source, kernel, [q, x, y, z], symbols, watch=watch)
    factor = 2 if use == "changed" else 1
    products = np.einsum("ij,kmj->im", q.astype(np.float32) * factor, x.astype(np.float32))
    np.testing.assert_array_equal(y, products)
    if use in ("behind", "known"):
        np.testing.assert_array_equal(z, q[::-1])
    assert not watch.found
