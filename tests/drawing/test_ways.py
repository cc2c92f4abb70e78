"""Tiles that are cut and rows that are not aligned: requests of the way that blocks go, against a
count from the threads' addresses."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.drawing import show
from tileprof.drawing.moved import Moved

ROWS, COLUMNS = 8, 128
"""Of a tile: each of 4 warps takes whole rows."""


@tileprof.jit
def fixed(X, Y):
    """Adds 1 to each element; extents are numbers."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, ROWS), threads=128) as (bx, by):
        for i, j in T.Parallel(ROWS, COLUMNS):
            Y[by * ROWS + i, bx * COLUMNS + j] = X[by * ROWS + i, bx * COLUMNS + j] + 1.0


@tileprof.jit
def open_(X, Y):
    """The same; extents are known at launch."""
    M, N = T.dynamic("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, ROWS), threads=128) as (bx, by):
        for i, j in T.Parallel(ROWS, COLUMNS):
            Y[by * ROWS + i, bx * COLUMNS + j] = X[by * ROWS + i, bx * COLUMNS + j] + 1.0


@tileprof.jit
def fixed_sums(X, Y):
    """Adds each element to another one; extents are numbers."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, ROWS), threads=128) as (bx, by):
        for i, j in T.Parallel(ROWS, COLUMNS):
            T.atomic_add(Y[by * ROWS + i, bx * COLUMNS + j], X[by * ROWS + i, bx * COLUMNS + j])


@tileprof.jit
def open_sums(X, Y):
    """The same; extents are known at launch."""
    M, N = T.dynamic("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, ROWS), threads=128) as (bx, by):
        for i, j in T.Parallel(ROWS, COLUMNS):
            T.atomic_add(Y[by * ROWS + i, bx * COLUMNS + j], X[by * ROWS + i, bx * COLUMNS + j])


def counted(rows: int, columns: int, apart: int, width: int, *, at_once: bool) -> Moved:
    """Requests of 32 lanes that take `width` elements of float32 each, lanes being `apart` elements
    from each other; `at_once`: in tiles that are inside they take as many."""
    made = Moved()
    for row, tile in itertools.product(range(rows), range(0, columns, COLUMNS)):
        whole = row - row % ROWS + ROWS <= rows and tile + COLUMNS <= columns
        step = apart if at_once and whole else width
        for part in range(tile, tile + COLUMNS, 32 * apart):
            for first in range(part, part + apart, step):
                held = [first + apart * lane for lane in range(32)]
                bytes_ = [4 * (row * columns + each) for each in held if each < columns]
                if bytes_:
                    touched = {each // 32 for each in bytes_}
                    asked = len(bytes_) * step * 4
                    made.add(Moved(1, len(touched), -(-asked // 32), asked))
    return made


SHAPES = [(16, 256), (20, 300), (3, 44), (9, 302), (17, 257), (1, 1)]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", [fixed, open_, fixed_sums, open_sums], ids=lambda k: k.__name__)
def test_cut_tiles_go_their_own_way(kernel: Any, shape: tuple[int, int]) -> None:
    """Where extents are numbers, vectors are as wide as rows allow; where they are known at launch
    only, tiles that are whole take vectors if rows are aligned, and others single elements."""
    ones = np.ones(shape, np.float32)
    (launch,) = show(kernel, ones, ones.copy(), machine_code=False).watch.launches
    aligned = next(each for each in (4, 2, 1) if shape[1] % each == 0)
    open_rows = kernel in (open_, open_sums)
    apart, width = (4, 1) if open_rows else (aligned, aligned)
    expected = counted(*shape, apart, width, at_once=aligned == 4)
    assert launch.traffic.places
    for place, moved in launch.traffic.places.items():
        assert moved == expected, place
