"""Access of single elements: values, guards and their count, atomics, views of the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.kernels import VECTOR_ADD
from tests.interpreter.running import array, run
from tileprof.errors import Location

SHIFT = """
kernel @shift(%x: global<n, float32> safe(-1.0), %y: out global<n, float32>) symbols(%n) {
  %c4 = constant 4 : index
  %c3 = constant 3 : index
  %up = add %n, %c3 : index
  %blocks = floordiv %up, %c4 : index
  launch [%blocks] {threads = [4]} body(%bx: index) {
    parallel [%c4] body(%i: index) {
      %base = mul %bx, %c4 : index
      %at = add %base, %i : index
      %next = add %at, %c3 : index
      %v = load %x, [%next] : float32 loc("shift.py":7:4-7:9 "f")
      store %v, %y, [%at] loc("shift.py":8:4-8:9 "f")
    }
  }
}
"""


def test_guarded_accesses() -> None:
    """Beyond the upper edge reads give the safe value, writes are dropped; both count by line."""
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    result = run(SHIFT, x, y, symbols=(6,))
    assert y.tolist() == [3, 4, 5, -1, -1, -1]
    assert result.guarded_by_line == {Location("shift.py", 7): 5, Location("shift.py", 8): 2}
    assert (result.guarded, result.grid, result.blocks) == (7, (2,), 2)


@given(n=st.integers(1, 70))
@settings(max_examples=20, deadline=None)
def test_guard_property(n: int) -> None:
    """For every length: element i is x[i + 3] or the safe value; what is outside is counted."""
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    result = run(SHIFT, x, y, symbols=(n,))
    assert y.tolist() == [x[i + 3] if i + 3 < n else -1 for i in range(n)]
    lanes = -(-n // 4) * 4
    outside_reads = sum(i + 3 >= n for i in range(lanes))
    assert result.guarded == outside_reads + (lanes - n)


def test_a_tensor_without_elements() -> None:
    """Where there is no element, every access is guarded."""
    empty = np.zeros((0,), np.float32)
    assert run(SHIFT.replace("[%blocks]", "[%c3]"), empty, empty, symbols=(0,)).guarded == 24


def test_strided_and_reversed_arguments() -> None:
    """Arguments with any strides are read and written in place."""
    store = np.arange(2000, dtype=np.float32)
    a, b, c = store[:600:2], store[1500:1200:-1], np.zeros((300, 3), np.float32)[:, 1]
    expected = a + b
    run(VECTOR_ADD, a, b, c, symbols=(300,))
    np.testing.assert_array_equal(c, expected)


TRANSPOSE = """
kernel @transpose(%x: global<3, 5, int32>, %y: out global<5, 3, int32>) {
  %c1 = constant 1 : index
  %c3 = constant 3 : index
  %c5 = constant 5 : index
  launch [%c1] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [3, 5]} : shared<3, 5, int32>
    parallel [%c5, %c3] body(%j: index, %i: index) {
      %v = load %x, [%i, %j] : int32
      store %v, %s, [%i, %j]
    }
    parallel [%c5, %c3] body(%j: index, %i: index) {
      %v = load %s, [%i, %j] : int32
      store %v, %y, [%j, %i]
    }
  }
}
"""


def test_loop_variables_in_any_order() -> None:
    """Indices that are loop variables may stand in any order."""
    x, y = np.arange(15, dtype=np.int32).reshape(3, 5), np.zeros((5, 3), np.int32)
    run(TRANSPOSE, x, y)
    np.testing.assert_array_equal(y, x.T)


SWAP = """
kernel @swap(%x: global<4, 2, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c4 = constant 4 : index
  launch [%c4] {threads = [32]} body(%bx: index) {
    %l = alloc local {shape = [2]} : local<2, int32>
    %a = load %x, [%bx, %c0] : int32
    %b = load %x, [%bx, %c1] : int32
    store %a, %l, [%c0]
    store %b, %l, [%c1]
    %p = load %l, [%c0] : int32
    store %b, %l, [%c0]
    store %p, %x, [%bx, %c1]
    %q = load %l, [%c0] : int32
    store %q, %x, [%bx, %c0]
  }
}
"""


def test_a_loaded_value_stays() -> None:
    """What was loaded does not change when its element is written."""
    x = np.arange(8, dtype=np.int32).reshape(4, 2)
    run(SWAP, x)
    assert x.tolist() == [[1, 0], [3, 2], [5, 4], [7, 6]]


GATHER = """
kernel @gather(%x: global<n, float32>, %at: global<m, int32>, %y: out global<m, float32>)
    symbols(%n, %m) {
  launch [%m] {threads = [32]} body(%bx: index) {
    %i = load %at, [%bx] : int32
    %v = load %x, [%i] : float32
    store %v, %y, [%bx]
  }
}
"""


def test_indices_from_memory() -> None:
    """An index may be any integer that was computed or loaded."""
    x, y = np.arange(10, dtype=np.float32), np.zeros(4, np.float32)
    run(GATHER, x, array("int32", [3, 9, 0, 12]), y, symbols=(10, 4))
    assert y.tolist() == [3, 9, 0, 0]


def atomic_kernel(kind: str, dtype: str, use: bool) -> str:
    """Block i combines `v[i]` into `x[at[i]]`; with `use` it keeps what was there before."""
    keep = "store %old, %olds, [%bx]" if use else ""
    return f"""
kernel @atomic(%x: global<2, {dtype}>, %v: global<4, {dtype}>, %at: global<4, int64>,
    %olds: global<4, {dtype}>) {{
  %c4 = constant 4 : index
  launch [%c4] {{threads = [32]}} body(%bx: index) {{
    %i = load %at, [%bx] : int64
    %e = load %v, [%bx] : {dtype}
    %old = atomic {kind} %e, %x, [%i] : {dtype}
    {keep}
  }}
}}
"""


ATOMICS: dict[str, tuple[list[int], list[int]]] = {
    "add": ([15, 7], [10, 5, 11, 14]),
    "max": ([10, 5], [10, 5, 10, 10]),
    "min": ([1, 2], [10, 5, 1, 1]),
    "and": ([0, 0], [10, 5, 0, 0]),
    "or": ([11, 7], [10, 5, 11, 11]),
    "xor": ([9, 7], [10, 5, 11, 8]),
    "exchange": ([4, 2], [10, 5, 1, 3]),
}


@pytest.mark.parametrize("kind", ATOMICS)
@pytest.mark.parametrize("use", [False, True])
def test_atomic(kind: str, use: bool) -> None:
    """Blocks 0, 2 and 3 combine 1, 3 and 1 into 10 in this order; the old values come back."""
    x, v, at = array("int32", [10, 5]), array("int32", [1, 2, 3, 1]), array("int64", [0, 1, 0, 0])
    if kind == "exchange":
        v[3] = 4
    olds = np.full(4, -1, np.int32)
    expected, before = ATOMICS[kind]
    run(atomic_kernel(kind, "int32", use), x, v, at, olds)
    assert x.tolist() == expected
    assert olds.tolist() == (before if use else [-1] * 4)


@pytest.mark.parametrize("use", [False, True])
def test_atomic_rounds_each_time(use: bool) -> None:
    """256 + 1 is 256 in bfloat16, three times over; 256 + 3 would not be."""
    x, v = array("bfloat16", [256, 0]), array("bfloat16", [1, 0, 1, 1])
    olds = array("bfloat16", [0] * 4)
    run(atomic_kernel("add", "bfloat16", use), x, v, array("int64", [0, 1, 0, 0]), olds)
    assert x.astype(float).tolist() == [256, 0]


def test_atomic_beyond_the_edge_is_dropped() -> None:
    """An atomic is guarded as a store is."""
    x, v = array("int32", [1, 2]), array("int32", [1, 1, 1, 1])
    olds = np.zeros(4, np.int32)
    result = run(atomic_kernel("add", "int32", False), x, v, array("int64", [0, 2, 5, 1]), olds)
    assert x.tolist() == [2, 3]
    assert result.guarded == 2


HISTOGRAM = """
kernel @histogram(%x: global<n, int32>, %h: global<4, int32>) symbols(%n) {
  %c1 = constant 1 : index
  %one = constant 1 : int32
  launch [%c1] {threads = [32]} body(%bx: index) {
    parallel [%n] body(%i: index) {
      %v = load %x, [%i] : int32
      %old = atomic add %one, %h, [%v] : int32
    }
  }
}
"""


def test_atomic_in_parallel() -> None:
    """Points that meet in one element all count."""
    h = np.zeros(4, np.int32)
    run(HISTOGRAM, array("int32", [0, 1, 1, 3, 3, 3, 3]), h, symbols=(7,))
    assert h.tolist() == [1, 2, 0, 4]


REINTERPRET = """
kernel @reinterpret(%x: global<4, float32>, %y: out global<2, 8, uint8>, %z: out global<2, 2, float32>) {
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  %c8 = constant 8 : index
  launch [%c1] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [4]} : shared<4, float32>
    %bytes = reinterpret %s {shape = [2, 8]} : shared<2, 8, uint8>
    %square = reinterpret %s {shape = [2, 2]} : shared<2, 2, float32>
    parallel [%c4] body(%i: index) {
      %v = load %x, [%i] : float32
      store %v, %s, [%i]
    }
    parallel [%c2, %c8] body(%i: index, %j: index) {
      %v = load %bytes, [%i, %j] : uint8
      store %v, %y, [%i, %j]
    }
    copy %square, %z
  }
}
"""  # noqa: E501 - the parameters are one list


def test_reinterpret_shares_memory() -> None:
    """The same memory under other shapes and element types, as NumPy's views see it."""
    x = np.array([1, 2, 3, 4], np.float32)
    y, z = np.zeros((2, 8), np.uint8), np.zeros((2, 2), np.float32)
    run(REINTERPRET, x, y, z)
    np.testing.assert_array_equal(y, x.view(np.uint8).reshape(2, 8))
    np.testing.assert_array_equal(z, x.reshape(2, 2))


SCALARS = """
kernel @scalars(%x: global<3, bfloat16>, %by: float32, %n: int32, %on: bool) {
  launch [%n_] {threads = [32]} body(%bx: index) {
    if %on then {
      %v = load %x, [%bx] : bfloat16
      %w = cast %v : float32
      %p = mul %w, %by : float32
      %q = cast %p : bfloat16
      store %q, %x, [%bx]
    } otherwise {
    }
  }
}
""".replace("  launch", "  %n_ = cast %n : index\n  launch")


@pytest.mark.parametrize("on", [True, np.bool_(False)])
def test_scalar_parameters(on: Any) -> None:
    """Python and NumPy scalars are taken in the type of their parameter."""
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    run(SCALARS, x, 0.5, np.int64(3), on)
    assert x.astype(float).tolist() == ([0.5, 1, 1.5] if on else [1, 2, 3])


PARTIAL = """
kernel @partial(%x: global<8, int32>, %y: out global<4, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  launch [%c4] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [8]} : shared<8, int32>
    parallel [%c4] body(%i: index) {
      %at = mul %i, %c2 : index
      %v = load %x, [%at] : int32
      store %v, %s, [%at]
    }
    %at = mul %bx, %c2 : index
    %v = load %s, [%at] : int32
    store %v, %y, [%bx]
  }
}
"""


def test_partly_written_buffer() -> None:
    """Elements that were written may be read although their neighbours never were."""
    x, y = np.arange(8, dtype=np.int32), np.zeros(4, np.int32)
    run(PARTIAL, x, y)
    assert y.tolist() == [0, 2, 4, 6]
