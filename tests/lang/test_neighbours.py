"""Loops over points inside of others, atomics and products of neighbours, types below a byte."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import refused_in_place, same_everywhere
from tileprof import ir
from tileprof.errors import DTypeError, KernelError, TileprofError, UnsupportedPython

RNG = np.random.default_rng(7)


@tileprof.jit
def nested(A):
    """Loops of `T.parallel`: two that are one box, and one beside other work."""
    A: T.Tensor((8, 16), T.float32)
    twice = T.empty((8, 16), T.float32)
    moved = T.empty((8, 16), T.float32)
    with T.Kernel(2, threads=64) as _:
        row = T.get_block_binding(0) * 4
        tile = T.alloc_fragment((4, 16), T.float32)
        for i in T.parallel(4):
            for j in T.parallel(16):
                tile[i, j] = A[row + i, j] * 2
        T.copy(tile, twice[row, 0])
        for i in T.parallel(4):
            first = A[row + i, 0]
            for j in T.parallel(16):
                moved[row + i, j] = A[row + i, j] - first
    return twice, moved


def test_loops_over_points_nest() -> None:
    """Those that are all that the points of another do are axes of it."""
    a = RNG.standard_normal((8, 16)).astype("f4")
    same_everywhere(nested, [a], a * 2, a - a[:, :1])
    ops = nested.compile(a).program.kernel.ops()
    loops = [op for op in ops if isinstance(op, ir.Parallel)]
    assert [len(op.extents) for op in loops] == [2, 2]


@tileprof.jit
def added(A, at):
    """Neighbours are added at places that several rows have in common."""
    A: T.Tensor((16, 16), T.float32)
    at: T.Tensor((16,), T.int32)
    fours = T.empty((4, 16), T.float32)
    twos = T.empty((4, 16), T.float32)
    with T.Kernel(1, threads=64) as _:
        tile = T.alloc_shared((16, 16), T.float32)
        T.copy(A, tile)
        for i, j in T.Parallel(4, 16):
            fours[i, j] = 0
            twos[i, j] = 0
        for i, j in T.Parallel(16, 4):
            T.atomic_addx4(fours[at[i], j * 4], tile[i, j * 4])
        for i, j in T.Parallel(16, 8):
            T.atomic_addx2(twos[at[i], j * 2], A[i, j * 2])
    return fours, twos


def test_neighbours_are_added_at_once() -> None:
    """Four and two of them."""
    a, at = RNG.integers(-9, 9, (16, 16)).astype("f4"), RNG.integers(0, 4, 16).astype("i4")
    right = np.zeros((4, 16), "f4")
    np.add.at(right, at, a)
    same_everywhere(added, [a, at], right, right)


@tileprof.jit
def dots(A, B):
    """Products of four bytes, added to what is there."""
    A: T.Tensor((32, 4), T.int8)
    B: T.Tensor((32, 4), T.int8)
    out = T.empty((32,), T.int32)
    with T.Kernel(1, threads=32) as _:
        tx = T.get_thread_binding(0)
        total = T.alloc_local((1,), T.int32)
        a, b = T.alloc_local((4,), T.int8), T.alloc_local((4,), T.int8)
        total[0] = tx
        for v in T.vectorized(4):
            a[v] = A[tx, v]
            b[v] = B[tx, v]
        T.dp4a(a[0], b[0], total[0])
        out[tx] = total[0]
    return out


def test_products_of_bytes() -> None:
    """They do not overflow a byte."""
    a, b = (RNG.integers(-128, 128, (32, 4)).astype("i1") for _ in "ab")
    right = (a.astype("i4") * b).sum(1, dtype="i4") + np.arange(32, dtype="i4")
    same_everywhere(dots, [a, b], right, debug=False)


@tileprof.jit
def wishes_for_nothing(A):
    """A wish about a tile that no statement touches."""
    A: T.Tensor((8,), T.int32)
    out = T.empty((8,), T.int32)
    with T.Kernel(1, threads=32) as _:
        unused = T.alloc_shared((8, 8), T.int32)
        T.annotate_layout({unused: T.make_swizzled_layout(unused)})
        for i in T.Parallel(8):
            out[i] = A[i] + 1
    return out


def test_a_wish_about_an_unused_tile_is_left_out() -> None:
    """The tile takes no shared memory on a GPU."""
    a = np.arange(8, dtype="i4")
    same_everywhere(wishes_for_nothing, [a], a + 1)


def test_names_of_types_below_a_byte() -> None:
    """They can be compared; a buffer of them is an error that says what to do."""
    assert T.int4 == "int4"
    assert repr(T.float4_e2m1fn) == "T.float4_e2m1fn"
    assert T.uint2.bits == 2
    with pytest.raises(DTypeError, match="smaller than a byte"):
        T.int4(3)


@tileprof.jit
def of_four_bits(A):
    """A tile of elements of four bits."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        tile = T.alloc_shared((8,), T.int4)
        T.clear(tile)


@tileprof.jit
def wants_what_was(A):
    """Atomics of several elements give no values."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        for i in T.Parallel(2):
            T.atomic_addx4(A[i * 4], A[i * 4], return_prev=True)


@tileprof.jit
def breaks_out(A):
    """A loop over points cannot be left."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        for i in T.parallel(2):
            for j in T.parallel(4):
                if A[i * 4 + j] > 0:
                    break
                A[i * 4 + j] = 1


@tileprof.jit
def foreign(A):
    """Text in another language."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        T.import_source("__device__ void f() {}")
        A[0] = 1


@tileprof.jit
def fourth_axis(A):
    """A grid has three."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        A[0] = T.get_block_binding(3)


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (of_four_bits, DTypeError, "elements of type int4 are smaller than a byte"),
        (wants_what_was, KernelError, "`T.atomic_addx4` with `return_prev`"),
        (breaks_out, UnsupportedPython, "its iterations have no order"),
        (foreign, KernelError, "`T.import_source` of a text in another language"),
        (fourth_axis, KernelError, "T.get_block_binding(3)"),
    ],
    ids=lambda held: getattr(held, "kernel_name", None),
)
def test_what_cannot_be_said_is_an_error_at_its_line(
    function: Any, kind: type[TileprofError], message: str
) -> None:
    """The sentence names the cause; the place is in the kernel."""
    refused_in_place(function, np.zeros(8, "i4"), kind, message, __file__)


@tileprof.jit
def seen_before_the_launch(X):
    """Tensors under other shapes, which are made before the blocks begin."""
    X: T.Tensor((4, 8, 8), T.float32)
    Y = T.empty((4, 8, 8), T.float32)
    rows = T.view(X, (4, 64))
    flat = T.view(T.view(Y, (4, 64)), (256,))
    with T.Kernel(4, threads=64) as block:
        for i in T.Parallel(64):
            flat[block * 64 + i] = rows[block, 63 - i]
    with T.Kernel(1, threads=64):
        for i in T.Parallel(256):
            flat[i] = flat[i] + 1
    return Y


def test_views_made_before_a_launch_are_seen_inside() -> None:
    """Each launch sees the tensor in the shape that the view gives it."""
    x = np.arange(256, dtype="f4").reshape(4, 8, 8)
    same_everywhere(seen_before_the_launch, [x], x.reshape(4, 64)[:, ::-1].reshape(x.shape) + 1)
