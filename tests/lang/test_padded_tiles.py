"""Tiles that are longer than the dimension of a tensor which they copy."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import same_everywhere
from tileprof.errors import ShapeError


@tileprof.jit
def padded(A, B, part: bool = False):
    """A·Bᵀ over rows of 20, by tiles of 32."""
    A: T.Tensor((2, 16, 20), T.float16)
    B: T.Tensor((16, 20), T.float16)
    C = T.empty((16, 16), T.float32)
    D = T.empty((16, 20), T.float16)
    with T.Kernel(1, threads=32) as _:
        a = T.alloc_shared((16, 32), T.float16)
        b = T.alloc_shared((16, 32), T.float16)
        c = T.alloc_fragment((16, 16), T.float32)
        T.copy(A[1, 0:16, 0:19] if part else A[1, 0:16, :], a)
        T.copy(B[:, :], b)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.copy(c, C)
        T.copy(a, D[:, :])
    return C, D


def test_a_tile_is_padded_by_zeros_past_a_whole_dimension() -> None:
    """Elements past the edge do not count in a product, and are not written back."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (2, 16, 20)).astype("f2"), rng.integers(-4, 5, (16, 20)).astype("f2")
    same_everywhere(padded, [a, b], a[1].astype("f4") @ b.T.astype("f4"), a[1])


def test_a_part_of_a_dimension_has_the_extent_of_the_tile() -> None:
    """There the tile would be filled with neighbours that nobody asked for."""
    with pytest.raises(ShapeError, match="between a tile 1×16×19 of `A` and `a` 16×32"):
        padded.compile(part=True)
