"""Copies of a few elements through pointers are copies of elements, as wide as they were asked."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for
from tests.lang.checks import same_everywhere
from tileprof.errors import KernelError
from tileprof.remarks.layouts import GlobalAccess

WIDTH, PADDED, ROWS = 248, 256, 4


@tileprof.jit
def padded(X, at_once: int = 8):
    M = T.const("M")
    X: T.Tensor((M, WIDTH), "float16")
    Y = T.empty((M, PADDED), "float16")
    with T.Kernel(T.ceildiv(M, ROWS), threads=128) as block:
        rows = T.alloc_shared((ROWS, PADDED), "float16")
        for i, j in T.Parallel(ROWS, PADDED // at_once):
            row, column = block * ROWS + i, j * at_once
            kind = T.type_annotation("float16")
            T.ptx_cp_async(
                T.tvm_access_ptr(kind, rows.data, i * PADDED + column, at_once, 2),
                T.tvm_access_ptr(kind, X.data, row * WIDTH + column, at_once, 1),
                at_once,
                predicate=T.And(row < M, column + at_once <= WIDTH),
            )
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        T.sync_threads()
        for i, j in T.Parallel(ROWS, PADDED):
            if block * ROWS + i < M:
                Y[block * ROWS + i, j] = rows[i, j]
    return Y


@pytest.mark.sweep
def test_copies_through_pointers():
    """Elements that the predicate leaves out are zero, also in rows beyond the tensor."""
    x = np.random.default_rng(1).standard_normal((6, WIDTH)).astype(np.float16)
    same_everywhere(padded, [x], np.pad(x, ((0, 0), (0, PADDED - WIDTH))))


def test_copies_through_pointers_are_wide():
    """Eight elements of 16 bits are one access of 16 bytes."""
    x = np.zeros((8, WIDTH), np.float16)
    program = compiled_for(padded.compile(x).program.kernel, "sm_90a", None, {})
    widths = [r.decision.width for r in program.remarks if isinstance(r.decision, GlobalAccess)]
    assert widths
    assert set(widths) == {16}


@tileprof.jit
def other_type(X):
    X: T.Tensor((8,), "float32")
    with T.Kernel(1):
        T.tvm_access_ptr(T.type_annotation("float16"), X.data, 0, 8, 1)


@tileprof.jit
def no_buffer(X):
    X: T.Tensor((8,), "float32")
    with T.Kernel(1):
        T.tvm_access_ptr(T.type_annotation("float32"), 3, 0, 8, 1)


@tileprof.jit
def no_places(X):
    X: T.Tensor((8,), "float32")
    with T.Kernel(1):
        T.ptx_cp_async(X, X, 8)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (other_type, "a pointer to float16 into `X`, which has float32"),
        (no_buffer, "`T.tvm_access_ptr` of 3"),
        (no_places, "`T.ptx_cp_async` of something else"),
    ],
)
def test_other_pointers_are_refused(kernel, message):
    """The error is at the author's line and says what to write."""
    with pytest.raises(KernelError, match=message) as caught, tileprof.device("interpreter"):
        kernel(np.zeros(8, np.float32))
    assert caught.value.location is not None
    assert caught.value.hint
