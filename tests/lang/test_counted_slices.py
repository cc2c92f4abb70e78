"""Slices whose length is computed in the kernel: what is copied, and what stays as it is."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for
from tests.lang.checks import same_everywhere
from tileprof.errors import ShapeError

same = partial(same_everywhere, debug=False)
WIDTH, MOST, ROWS = 16, 8, 40
STARTS, LENGTHS = (np.array(x, "i4") for x in ([0, 5, 13, 20], [5, 8, 0, 3]))


@tileprof.jit
def ragged(A, starts, lengths):
    """Copies and fills of some rows: into shared memory, into a fragment, and back."""
    A: T.Tensor((ROWS, WIDTH), T.float32)
    starts: T.Tensor((4,), T.int32)
    lengths: T.Tensor((4,), T.int32)
    out = T.empty((4, 4, MOST, WIDTH), T.float32)
    with T.Kernel(4, threads=64) as b:
        tile = T.alloc_shared((MOST, WIDTH), T.float32)
        held = T.alloc_fragment((MOST, WIDTH), T.float32)
        begin, count = starts[b], lengths[b]
        T.fill(tile, -1)
        T.copy(A[begin : begin + count, :], tile[:count, :])
        T.copy(tile, out[b, 0, :, :])
        T.copy(A[begin : begin + count, 0:WIDTH], tile)
        T.copy(tile, out[b, 1, :, :])
        T.fill(held, 7)
        T.clear(held[0:count, :])
        T.copy(tile[0:count, 0:4], held[0:count, 4:8])
        T.copy(held, out[b, 2, :, :])
        T.fill(tile, 9)
        T.copy(tile, out[b, 3, :, :])
        T.copy(held, out[b, 3, 0:count, :])
    return out


def _expected(a: np.ndarray) -> np.ndarray:
    out = np.empty((4, 4, MOST, WIDTH), "f4")
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = -1, 0, 7, 9
    for b, (begin, count) in enumerate(zip(STARTS, LENGTHS)):
        rows = a[begin : begin + count]
        out[b, :2, :count] = rows
        out[b, 2, :count] = 0
        out[b, 2, :count, 4:8] = rows[:, :4]
        out[b, 3, :count] = out[b, 2, :count]
    return out


def test_slices_of_computed_length() -> None:
    """Rows of the slice are copied or filled; others stay, or are 0 where a whole tile is set."""
    a = np.random.default_rng(3).standard_normal((ROWS, WIDTH), dtype="f4")
    same(ragged, [a, STARTS, LENGTHS], _expected(a))


@tileprof.jit
def long_rows(A, lengths):
    """Enough elements for wide accesses of every thread."""
    A: T.Tensor((ROWS, 128), T.float16)
    lengths: T.Tensor((4,), T.int32)
    out = T.empty((4, 64, 128), T.float16)
    with T.Kernel(4, threads=128) as b:
        tile = T.alloc_shared((64, 128), T.float16)
        T.copy(A[0 : lengths[b], :], tile)
        T.copy(tile, out[b, :, :])
    return out


def test_slices_of_computed_length_are_copied_in_vectors() -> None:
    """A length that is computed costs no width of the accesses."""
    remarks = compiled_for(long_rows.compile().program.kernel, "sm_90a", None, {}).remarks
    loads = [text for text in map(str, remarks) if "load A:" in text]
    assert loads
    assert all("16-byte accesses" in text for text in loads), loads


@tileprof.jit
def short_rows(A, lengths, most: int = 1):
    """A tile of one element takes a slice, too."""
    A: T.Tensor((ROWS, WIDTH), T.float32)
    lengths: T.Tensor((4,), T.int32)
    out = T.empty((4, most), T.float32)
    with T.Kernel(4, threads=32) as b:
        tile = T.alloc_fragment((most,), T.float32)
        T.copy(A[b, 0 : lengths[b]], tile)
        T.copy(tile, out[b, :])
    return out


@pytest.mark.parametrize("most", [1, 4])
def test_slices_match_tiles_of_one_element(most: int) -> None:
    """An extent of one is not left out where the slice needs it."""
    a = np.random.default_rng(4).standard_normal((ROWS, WIDTH), dtype="f4")
    held = np.arange(most) < LENGTHS[:, None]
    same(short_rows, [a, LENGTHS], np.where(held, a[:4, :most], 0), most=most)


@tileprof.jit
def between_tensors(A, lengths):
    """No side of the copy says how many elements there can be."""
    A: T.Tensor((ROWS, WIDTH), T.float32)
    lengths: T.Tensor((4,), T.int32)
    out = T.empty((ROWS, WIDTH), T.float32)
    with T.Kernel(1, threads=64) as _:
        count = lengths[0]
        T.copy(A[0:count, :], out[0:count, :])
    return out


def test_copies_between_tensors_need_a_size() -> None:
    """The error names the slice and a way out."""
    with pytest.raises(ShapeError, match="size of this slice is known only") as raised:
        between_tensors.compile()
    assert "start + number" in (raised.value.hint or "")
