"""Views of tensors whose extents are known at launch only."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.errors import ShapeError

n = T.dynamic("n")


@T.prim_func
def plus_one(A: T.Tensor((n, 3), T.int32), B: T.Tensor((n, 3), T.int32)):
    """Rows as one line, which is no multiple of the block."""
    with T.Kernel(T.ceildiv(n * 3, 32), threads=32) as b:
        one_line, other = T.reshape(A, (n * 3,)), T.view(B, (3 * n,))
        i = b * 32 + T.get_thread_binding()
        if i < n * 3:
            other[i] = one_line[i] + 1


@T.prim_func
def as_bytes(A: T.Tensor((n, 3), T.int32), B: T.Tensor((n, 12), T.uint8)):
    """The bytes of rows."""
    with T.Kernel(n * 12, threads=32) as b:
        line, other = T.view(A, (n * 12,), T.uint8), T.view(B, (n * 12,))
        other[b] = line[b]


@T.prim_func
def too_long(A: T.Tensor((n, 3), T.int32)):
    """A view beyond the tensor's end."""
    with T.Kernel(n, threads=32):
        T.reshape(A, (n * 4,))[0] = 1


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_view_with_extents_of_a_launch_shows_all_elements(device: str) -> None:
    """For several numbers of rows, the same kernel."""
    kernel, narrow = tileprof.compile(plus_one), tileprof.compile(as_bytes)
    for rows in (1, 11, 64):
        given = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3) * 1000
        made, octets = np.zeros_like(given), np.zeros((rows, 12), np.uint8)
        with tileprof.device(device):
            kernel(given, made)
            narrow(given, octets)
        np.testing.assert_array_equal(made, given + 1)
        np.testing.assert_array_equal(octets, given.view(np.uint8))


def test_view_of_another_size_is_refused() -> None:
    """Whatever the number of rows is."""
    with pytest.raises(ShapeError, match="do not have equally many bytes"):
        tileprof.compile(too_long)
