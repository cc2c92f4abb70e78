"""Points of a loop that update one element, as `x[i // 8] = T.max(x[i // 8], y)`."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201, ANN202
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import same_everywhere
from tileprof import ir
from tileprof.errors import KernelError

RNG = np.random.default_rng(3)


@tileprof.jit
def shared_elements(A):
    """Rows and blocks of a matrix, by updates of fragments."""
    A: T.Tensor((32, 64), T.float16)
    rows = T.empty((32,), T.float32)
    most = T.empty((4, 16), T.float16)
    counts = T.empty((64,), T.int32)
    bits = T.empty((64,), T.int32)
    with T.Kernel(1, threads=64) as _:
        total = T.alloc_fragment((32,), T.float32)
        high = T.alloc_fragment((4, 16), T.float16)
        count = T.alloc_fragment((64,), T.int32)
        seen = T.alloc_fragment((64,), T.int32)
        T.fill(total, 1)
        T.fill(high, -2)
        T.clear(count)
        T.clear(seen)
        for i, j in T.Parallel(32, 64):
            total[i] = total[i] - A[i, j]
            high[i // 8, j // 4] = T.max(high[i // 8, j // 4], A[i, j])
            if A[i, j] > 0:
                count[j] += 1
            else:
                for n in T.serial(2):
                    seen[j] |= n << i
        T.copy(total, rows)
        T.copy(high, most)
        T.copy(count, counts)
        T.copy(seen, bits)
    return rows, most, counts, bits


@pytest.mark.sweep
def test_updates_of_a_fragment_are_combined() -> None:
    """No update is lost on any device, whichever thread has which points."""
    a = RNG.integers(-9, 10, (32, 64)).astype("f2")
    most = np.maximum(a.reshape(4, 8, 16, 4).max((1, 3)), -2)
    bits = np.bitwise_or.reduce(np.where(a > 0, 0, 1 << np.arange(32)[:, None]), 0)
    rest = (a > 0).sum(0), bits.astype("u4").astype("i4")
    same_everywhere(shared_elements, [a], 1 - a.astype("f4").sum(1), most, *rest)


def updated(update: Callable[..., None], space: str = "fragment") -> ir.Kernel:
    """Compile a kernel whose points, 16×8 of them, change the 64 elements of `x`."""

    @T.prim_func
    def kernel(A: T.Tensor((16, 8), "int32"), n: T.int32) -> None:
        with T.Kernel(4, threads=32) as bx:
            x = getattr(T, f"alloc_{space}")((64,), "int32")
            T.clear(x)
            for i, j in T.Parallel(16, 8):
                update(x, A, i, j, bx, n)

    return tileprof.compile(kernel).program.kernel


def _add(x: Any, at: Any, y: Any) -> None:
    x[at] += y


@T.macro
def _one_column(x, A, i, j, bx, n):
    if j == n and A[i, j] > 0:
        x[i] += A[i, j]


@T.macro
def _every_second(x, A, i, j, bx, n):
    if i % 2 == 0:
        x[i // 2 * 8 + j] += A[i, j]


@T.macro
def _in_order(x, A, i, j, bx, n):
    for k in T.serial(4):
        if j == 0:
            x[i * 4 + k] += A[i, k]


@T.macro
def _positive(x, A, i, j, bx, n):
    if A[i, j] > 0:
        x[i] += A[i, j]


OWN = {
    "one column": _one_column,
    "every second row": _every_second,
    "iterations in order": _in_order,
    "read again": lambda x, A, i, j, *_: _add(x, i, x[j] + A[i, j]),
}
COMBINED = {
    "rows": lambda x, A, i, j, *_: _add(x, i, A[i, j]),
    "positive elements of rows": _positive,
    "a histogram": lambda x, A, i, j, *_: _add(x, A[i, j] % 64, 1),
    "moved by the block": lambda x, A, i, j, bx, n: _add(x, i * 2 + j // 4 + bx, A[i, j]),
    "one element": lambda x, A, i, j, bx, n: _add(x, bx, A[i, j]),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("space", ["fragment", "shared"])
def test_elements_of_single_points_are_updated_in_place(name: str, space: str) -> None:
    """Where no two points meet, or an update is none, the kernel is as it is written."""
    ops = list(updated(OWN[name], space).ops())
    assert not any(isinstance(op, ir.Atomic | ir.Reduce) for op in ops)


@pytest.mark.parametrize("name", COMBINED)
def test_elements_of_several_points_are_combined(name: str) -> None:
    """Their contributions are added by atomics, so that none is lost."""
    assert any(isinstance(op, ir.Atomic) for op in updated(COMBINED[name]).ops())


@pytest.mark.parametrize("name", ["rows", "a histogram", "one element"])
def test_lost_updates_of_shared_memory_are_refused(name: str) -> None:
    """The error names the statement and what to write in its place."""
    with pytest.raises(KernelError, match="update the same element of `x`") as caught:
        updated(COMBINED[name], "shared")
    assert "T.atomic_add(x[…], y)" in (caught.value.hint or "")
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("name", ["positive elements of rows", "moved by the block"])
def test_updates_that_may_be_apart_are_allowed_in_shared_memory(name: str) -> None:
    """Conditions of data and numbers of blocks are known when the kernel runs."""
    assert not any(isinstance(op, ir.Atomic) for op in updated(COMBINED[name], "shared").ops())


def test_a_dimension_of_a_fragment_is_reduced_after_the_loop() -> None:
    """Each point keeps what it contributes, where an axis of the loop is a whole dimension."""

    @T.prim_func
    def kernel(A: T.Tensor((16, 8), "float32"), y: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8,), "float32")
            T.clear(x)
            for i, j in T.Parallel(16, 8):
                x[j] = T.min(A[i, j], x[j])
            T.copy(x, y)

    reduced = [o for o in tileprof.compile(kernel).program.kernel.ops() if isinstance(o, ir.Reduce)]
    assert [(o.kind, o.dim, o.clear) for o in reduced] == [("min", 1, False)]
