"""Tile operations that write memory which they read: everything is read first, on every device."""

# mypy: disable-error-code="valid-type, no-redef"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.everywhere import results_everywhere
from tileprof import ir
from tileprof.compiler.passes import set_aside, simplify


@tileprof.jit
def moved(X, memory: str = "shared", down: int = 1):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Rows move by one within a buffer; the row at the end stays."""
    X: T.Tensor((64, 32), T.int32)
    Y = T.empty((64, 32), T.int32)
    with T.Kernel(1, threads=64):
        if memory == "global":
            tile = Y
        else:
            alloc = T.alloc_shared if memory == "shared" else T.alloc_fragment
            tile = alloc((64, 32), T.int32)
        T.copy(X, tile)
        if down:
            T.copy(tile[0:63, :], tile[1:64, :])
        else:
            T.copy(tile[1:64, :], tile[0:63, :])
        if memory != "global":
            T.copy(tile, Y)
    return Y


@tileprof.jit
def squared(X):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A product takes the place of its operands."""
    X: T.Tensor((64, 64), T.float32)
    Y = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((64, 64), T.float32)
        T.copy(X, x)
        T.gemm(x, x, x, clear_accum=True)
        T.copy(x, Y)
    return Y


@tileprof.jit
def first_column(X):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The largest number of each column takes a place in the first column."""
    X: T.Tensor((64, 64), T.int32)
    Y = T.empty((64, 64), T.int32)
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((64, 64), T.int32)
        T.copy(X, x)
        T.reduce_max(x, x[:, 0], dim=0)
        T.copy(x, Y)
    return Y


def _same_everywhere(function: Any, x: Any, expected: Any, **static: Any) -> None:
    for device, (made,) in results_everywhere(function, [x], **static):
        np.testing.assert_array_equal(made, expected, device)


@pytest.mark.spread
@pytest.mark.parametrize("memory", ["shared", "fragment", "global"])
@pytest.mark.parametrize("down", [0, 1])
def test_rows_move_within_a_buffer(memory: str, down: int) -> None:
    """Each row arrives as it was."""
    x = np.random.default_rng(0).integers(-8, 9, (64, 32)).astype(np.int32)
    moved_rows = np.concatenate([x[:1], x[:-1]] if down else [x[1:], x[-1:]])
    _same_everywhere(moved, x, moved_rows, memory=memory, down=down)


def test_a_product_takes_the_place_of_its_operands() -> None:
    """All of both operands is read before."""
    x = np.random.default_rng(0).integers(-2, 3, (64, 64)).astype(np.float32)
    _same_everywhere(squared, x, x @ x)


def test_a_reduction_goes_into_its_source() -> None:
    """Also where a later line reads what an earlier one writes."""
    x = np.random.default_rng(0).integers(-99, 99, (64, 64)).astype(np.int32)
    expected = x.copy()
    expected[:, 0] = x.max(0)
    _same_everywhere(first_column, x, expected)


@pytest.mark.parametrize(
    ("source", "target", "aside"),
    [
        ("%0, %0", "%4, %0", False),
        ("%0, %0", "%3, %0", True),
        ("%i, %0", "%i, %0", False),
        ("%i, %0", "%d, %0", False),
        ("%i, %0", "%j, %0", True),
    ],
)
def test_only_what_may_overlap_is_set_aside(source: str, target: str, aside: bool) -> None:
    """Parts of four rows: apart, overlapping, the same, and unknown."""
    kernel = ir.parse(f"""kernel @k() {{
  %1 = constant 1 : index
  %2 = constant 8 : index
  launch [%2, %2] {{threads = [32]}} body(%i: index, %j: index) {{
    %0 = constant 0 : index
    %3 = constant 3 : index
    %4 = constant 4 : index
    %d = sub %i, %4 : index
    %s = alloc shared {{shape = [16, 8]}} : shared<16, 8, int32>
    %a = view %s, [{source}] {{sizes = [4, 8]}} : shared<4, 8, int32>
    %b = view %s, [{target}] {{sizes = [4, 8]}} : shared<4, 8, int32>
    copy %a, %b
  }}
}}""")
    ir.verify(kernel)
    made = set_aside(simplify(kernel))
    ir.verify(made)
    assert ("aside" in ir.print_kernel(made)) == aside
