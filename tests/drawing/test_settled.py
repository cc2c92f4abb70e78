# mypy: disable-error-code="valid-type, no-redef, attr-defined"
# A kernel annotates its arguments with tensors, which is not Python's typing.
"""Requests by machine code in place of those that layouts foretell, and when they stay away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import need_machine_code
from tileprof.drawing import settled, show
from tileprof.drawing.moved import Traffic


@tileprof.jit
def kept(X: Any, Rows: Any, Columns: Any, rows: int = 8, columns: int = 96) -> Any:
    """Numbers that two masks keep: NVRTC loads a row's mask once for the points of a thread."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Rows: T.Tensor((M,), T.uint8)
    Columns: T.Tensor((N,), T.uint8)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(N // columns, T.ceildiv(M, rows), threads=96) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y < M:
                keeps = T.And(Rows[y] != 0, Columns[x] != 0)
                Y[y, x] = T.if_then_else(keeps, X[y, x], T.cast(0.0, T.float16))
    return Y


@tileprof.jit
def multiplied(A: Any, B: Any) -> Any:
    """A product of one tile by tensor cores."""
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((64, 64), T.float16)
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C)
    return C


DRAW = np.random.default_rng(0)
MASKED = (DRAW.random((45, 288)).astype(np.float16), DRAW.integers(0, 2, 45, np.uint8),
          DRAW.integers(0, 2, 288, np.uint8))  # fmt: skip


def traffic(kernel: Any, *arguments: Any, **options: Any) -> Traffic:
    """The requests of a kernel of one launch."""
    found = show(kernel, *arguments, **options).watch.launches[0].traffic
    assert found is not None
    return found


def test_requests_are_those_of_the_machine_code() -> None:
    """Fewer than by layouts; stores are equal, and buffers stay those of the program."""
    need_machine_code()
    code, layouts = traffic(kept, *MASKED), traffic(kept, *MASKED, machine_code=False)
    assert code.by_machine_code
    assert not layouts.by_machine_code
    reads, foretold = (each.total("global", "read") for each in (code, layouts))
    assert reads.requests < foretold.requests
    assert code.total("global", "write") == layouts.total("global", "write")
    assert {p.buffer for p in code.places} == {"X", "Rows", "Columns", "Y"}


def test_products_are_counted_by_their_layouts() -> None:
    """A run of machine code leaves out results of tensor cores."""
    need_machine_code()
    a = np.ones((64, 64), np.float16)
    assert not traffic(multiplied, a, a).by_machine_code


def test_long_launches_are_counted_by_their_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch ends before it takes longer than a page may."""
    need_machine_code()
    monkeypatch.setattr(settled, "MOST_WORK", 1000)
    assert not traffic(kept, *MASKED).by_machine_code


def test_a_run_with_other_results_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element differs, as after an instruction that is read wrong."""
    need_machine_code()
    honest = settled.ran

    def wrong(*arguments: Any) -> Any:
        run = honest(*arguments)
        run.results[-1][0, 0] += 1
        return run

    monkeypatch.setattr(settled, "ran", wrong)
    assert not traffic(kept, *MASKED).by_machine_code
