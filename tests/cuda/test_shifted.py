"""Loops over a part of a fragment leave it in registers."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for, results_everywhere
from tileprof.remarks.layouts import InSharedMemory

RNG = np.random.default_rng(17)


@tileprof.jit
def in_parts(A, B, parts: int = 2, guarded: bool = True, over: int = 0):
    """The rows of a product are given out in parts, through a tile of fewer rows."""
    A: T.Tensor((64, 32), T.float16)
    B: T.Tensor((32, 64), T.float16)
    out = T.empty((64, 64), T.float32)
    rows = 64 // parts
    with T.Kernel(1, threads=128) as _:
        a, b = T.alloc_shared((64, 32), T.float16), T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        part = T.alloc_shared((rows, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        for s in range(parts):
            if guarded:
                for i, j in T.Parallel(64, 64):
                    if i < rows:
                        part[i, j] = c[i + s * rows, j] * 2
            else:
                for i, j in T.Parallel(rows, 64):
                    part[i, j] = c[s * rows + i + over, j] * 2
            T.copy(part, out[s * rows, 0])
    return out


def _is_demoted(**static: Any) -> bool:
    arrays = np.zeros((64, 32), "f2"), np.zeros((32, 64), "f2")
    kernel = in_parts.compile(*arrays, **static).program.kernel
    remarks = compiled_for(kernel, "sm_90a", None, {}).remarks
    return any(isinstance(r.decision, InSharedMemory) for r in remarks)


@pytest.mark.spread("static1")
@pytest.mark.parametrize("static", [{}, {"guarded": False, "parts": 4}])
def test_parts_of_a_product(static: dict[str, Any]) -> None:
    """With the condition of the author, and without one."""
    a, b = RNG.integers(-3, 4, (64, 32)).astype("f2"), RNG.integers(-3, 4, (32, 64)).astype("f2")
    right = a.astype("f4") @ b.astype("f4") * 2
    for device, (found,) in results_everywhere(in_parts, [a, b], **static):
        np.testing.assert_array_equal(found, right, err_msg=device)
    assert not _is_demoted(**static)


def test_a_part_that_may_be_outside_is_left_alone() -> None:
    """An index beyond the fragment stays an error, so the loop is not changed."""
    assert _is_demoted(guarded=False, over=1)
