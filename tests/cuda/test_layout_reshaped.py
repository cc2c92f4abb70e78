"""Fragments that are seen under another shape: the same registers, numbered by other indices."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.layouts.candidates import distributed
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.layouts import InSharedMemory


def _compiled(program: Any, target: str) -> tuple[Any, CudaProgram]:
    kernel = tileprof.compile(program).program.kernel
    return kernel, compile_cuda(kernel, TARGETS[target])


def _in_shared(made: CudaProgram) -> list[str]:
    return [r.name for r in made.remarks if isinstance(r.decision, InSharedMemory)]


@T.prim_func
def _heads(
    A: T.Tensor((64, 64), "float16"),
    B: T.Tensor((64, 64), "float16"),
    W: T.Tensor((2, 32), "float32"),
    Y: T.Tensor((64, 2), "float32"),
    Z: T.Tensor((64, 64), "float32"),
) -> None:
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float32")
        heads = T.reshape(s, (64, 2, 32))
        w = T.alloc_fragment((2, 32), "float32")
        y = T.alloc_fragment((64, 2), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.copy(W, w)
        T.clear(y)
        for _ in T.serial(2):
            T.gemm(a, b, s, transpose_B=True, clear_accum=True)
            for i, j, h in T.Parallel(64, 2, 32):
                heads[i, j, h] = T.max(heads[i, j, h], 0) * w[j, h]
            T.reduce_sum(heads, y, dim=2, clear=False)
        # Sums that were written under the other shape are read under the first.
        for i, j in T.Parallel(64, 64):
            Z[i, j] = s[i, j]
        T.copy(y, Y)


@pytest.mark.parametrize("target", TARGETS)
def test_a_products_sums_stay_in_registers_under_another_shape(target: str) -> None:
    """Sums by head, and both shapes afterwards, are those of the product."""
    kernel, made = _compiled(_heads, target)
    assert not _in_shared(made)
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    w = random.integers(-2, 3, (2, 32)).astype(np.float32)
    y, z = np.zeros((64, 2), np.float32), np.zeros((64, 64), np.float32)
    emulate(made.source, kernel, [a, b, w, y, z])
    scaled = np.maximum(a.astype(np.float32) @ b.T, 0).reshape(64, 2, 32) * w
    np.testing.assert_array_equal(z, scaled.reshape(64, 64))
    np.testing.assert_array_equal(y, 2 * scaled.sum(2))


@T.prim_func
def _two_shapes(X: T.Tensor((24, 40), "float32"), Y: T.Tensor((40, 24), "float32")) -> None:
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((24, 40), "float32")
        turned = T.reshape(x, (40, 24))
        T.copy(X, x)
        T.copy(turned, Y)


@pytest.mark.parametrize("target", TARGETS)
def test_shapes_that_no_registers_fit_go_through_shared_memory(target: str) -> None:
    """Rows of 40 elements and of 24: no digit of a thread's number steps through both."""
    kernel, made = _compiled(_two_shapes, target)
    assert _in_shared(made) == ["x"]
    x = np.arange(24 * 40, dtype=np.float32).reshape(24, 40)
    y = np.zeros((40, 24), np.float32)
    emulate(made.source, kernel, [x.copy(), y])
    np.testing.assert_array_equal(y, x.reshape(40, 24))


_SHAPES = [
    ((64, 64), (64, 2, 32)), ((64, 64), (4096,)), ((2, 8, 32), (16, 32)), ((32, 16), (8, 64)),
    ((24, 64), (24, 4, 16)), ((24, 64), (6, 4, 64)), ((64, 1), (1, 64)), ((16, 12), (12, 16)),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(_SHAPES + [(b, a) for a, b in _SHAPES]),
    st.sampled_from([32, 96, 128]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_a_reshaped_layout_has_each_element_where_it_was(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], threads: int, vector: int, rows: bool
) -> None:
    """A layout under another shape numbers the same elements, or there is none that does."""
    before, after = shapes
    order = list(range(len(before)))
    if not rows:
        order.reverse()
    if before[order[0]] % vector:
        vector = 1
    layout = distributed(before, threads, vector, order, order)
    made = layout.reshape(after)
    if made is None:
        assert layout.is_padded or not _steps_evenly(layout, after)
        return
    assert made.reshape(before) == layout
    assert np.array_equal(_places(layout), _places(made))


def _places(layout: RegisterLayout) -> Any:
    """The number of each register's element in row-major order, by thread."""
    return np.ravel_multi_index(tuple(np.moveaxis(layout.table(), -1, 0)), layout.shape)


def _steps_evenly(layout: RegisterLayout, shape: tuple[int, ...]) -> bool:
    """Whether what threads and registers add to indices under a shape are independent of each
    other, tried on all elements."""
    table = np.stack(np.unravel_index(_places(layout), shape), axis=-1)
    first = table[0, 0]
    registers, threads = table[0] - first, table[:, 0] - first
    if not np.array_equal(table - first, threads[:, None] + registers[None]):
        return False
    parts = ((registers, layout.registers), (threads, (*layout.lanes, *layout.warps)))
    for offsets, digits in parts:
        weight, total = 1, np.zeros_like(offsets)
        for digit in digits:
            number = np.arange(len(offsets)) // weight % digit.radix
            total = total + number[:, None] * offsets[weight % len(offsets)]
            weight *= digit.radix
        if not np.array_equal(offsets, total):
            return False
    return True
