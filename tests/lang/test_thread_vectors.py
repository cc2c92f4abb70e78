"""Arrays that each thread fills in a loop over their elements: accesses are wide, and elements stay
in registers of the thread that uses them."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for
from tests.lang.checks import names_of_text, same_everywhere
from tileprof.remarks.layouts import Converted, GlobalAccess, InSharedMemory


@tileprof.jit
def dots_of_warps(A, X, loop: str = "vectorized", rows: int = 2):
    """A matrix by a vector: a warp for each row, 8 neighbours in each of its threads."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    X: T.Tensor((K,), T.float16)
    Y = T.empty((M,), T.float32)
    each = T.vectorized if loop == "vectorized" else T.serial
    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as b:
        tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
        a = T.alloc_local((8,), T.float16)
        x = T.alloc_local((8,), T.float16)
        total = T.alloc_local((1,), T.float32)
        whole = T.alloc_local((1,), T.float32)
        T.clear(total)
        for k in T.serial(K // 256):
            for v in each(8):
                a[v] = A[b * rows + ty, k * 256 + tx * 8 + v]
                x[v] = X[k * 256 + tx * 8 + v]
            for v in T.serial(8):
                total[0] += T.cast(a[v], T.float32) * T.cast(x[v], T.float32)
        with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(1, total[0], True, whole[0], tx))
        if tx == 0:
            Y[b * rows + ty] = whole[0]
    return Y


@tileprof.jit
def packed_by_threads(A, X, rows: int = 4):
    """The same with a matrix of 4-bit numbers, two in a byte."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K // 2), T.int8)
    X: T.Tensor((K,), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=(32, rows)) as b:
        tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
        x = T.alloc_local((8,), T.float16)
        packed = T.alloc_local((4,), T.int8)
        a = T.alloc_local((8,), T.float16)
        total = T.alloc_local((1,), T.float32)
        whole = T.alloc_local((1,), T.float32)
        T.clear(total)
        for k in T.serial(K // 256):
            for v in T.vectorized(8):
                x[v] = X[k * 256 + tx * 8 + v]
            for v in T.vectorized(4):
                packed[v] = A[b * rows + ty, k * 128 + tx * 4 + v]
            for v in T.serial(8):
                number = T.cast(packed[v // 2], T.int32) >> T.cast(v % 2 * 4, T.int32)
                a[v] = T.cast((number & 15) - 8, T.float16)
            for v in T.serial(8):
                total[0] += T.cast(a[v], T.float32) * T.cast(x[v], T.float32)
        with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(1, total[0], True, whole[0], tx))
        if tx == 0:
            Y[b * rows + ty] = whole[0]
    return Y


def _compiled(function: Any, *arrays: Any, **options: Any) -> tuple[str, dict[str, int]]:
    """Return the CUDA text and the bytes of each load from a tensor; all locals are in registers of
    the threads that use them."""
    program = compiled_for(function.compile(*arrays, **options).program.kernel, "sm_90a", None, {})
    moved = [r for r in program.remarks if isinstance(r.decision, Converted | InSharedMemory)]
    assert not moved
    widths = {
        r.name: r.decision.width for r in program.remarks
        if isinstance(r.decision, GlobalAccess) and r.op == "load"
    }  # fmt: skip
    return program.source.text, widths


@pytest.mark.parametrize("rows", [7, 8])
def test_arrays_along_different_axes_are_loaded_by_wide_accesses(rows: int) -> None:
    """A vectorized loop fills an array for each thread, and one that rows have in common."""
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (rows, 512)).astype("f2")
    x = random.integers(-4, 5, 512).astype("f2")
    same_everywhere(dots_of_warps, [a, x], a.astype("f4") @ x.astype("f4"), debug=False)
    assert _compiled(dots_of_warps, a, x)[1] == {"A": 16, "X": 16}


def test_elements_that_a_serial_loop_numbers_stay_with_their_thread() -> None:
    """Without `T.vectorized` loads are single elements, but no element goes to another thread."""
    a, x = np.zeros((8, 512), "f2"), np.zeros(512, "f2")
    assert _compiled(dots_of_warps, a, x, loop="serial")[1] == {"A": 2, "X": 2}


def test_packed_numbers_are_unpacked_in_registers() -> None:
    """The byte of an element is numbered by `v // 2`; numbers of 4 bits are converted once."""
    random = np.random.default_rng(0)
    packed = random.integers(-128, 128, (8, 256)).astype("i1")
    x = random.integers(-4, 5, 512).astype("f2")
    numbers = np.stack([packed & 15, packed >> 4 & 15], axis=-1).reshape(8, 512) - 8.0
    same_everywhere(packed_by_threads, [packed, x], numbers @ x, debug=False)
    text, widths = _compiled(packed_by_threads, packed, x)
    assert widths == {"A": 4, "X": 16}
    assert "tp_store<TpHalf>((float)" in text
    # Loads of all iterations are in flight at once.
    before, _, rest = text.partition("for (int k = 0")
    assert before.rstrip().endswith("#pragma unroll")
    assert "tp_barrier" not in rest.partition("tp_shuffle_xor")[0]


def _terms() -> st.SearchStrategy[str]:
    return st.sampled_from(["a[v]", "x[v]", "t", "A[ty, tx * 4 + v]", "X[tx * 4 + v]", "v", "tx"])


def _statements() -> Iterator[st.SearchStrategy[str]]:
    for target in ("a[v]", "x[v]", "t"):
        yield st.builds(lambda one, other, to=target: f"{to} = {one} - {other}", _terms(), _terms())


@given(lines=st.lists(st.one_of(*_statements()), min_size=2, max_size=6))
@settings(max_examples=25, deadline=None)
def test_statements_of_a_vectorized_loop_keep_their_order(lines: list[str]) -> None:
    """Each element gets what its own iteration gives, whichever statements share a loop."""
    head = [
        "@tileprof.jit", "def drawn(A, X):", "    A: T.Tensor((2, 16), T.int32)",
        "    X: T.Tensor((16,), T.int32)", "    Y = T.empty((2, 4, 4), T.int32)",
        "    Z = T.empty((2, 4, 4), T.int32)", "    with T.Kernel(1, threads=(4, 2)) as _:",
        "        tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)",
        "        a = T.alloc_local((4,), T.int32)", "        x = T.alloc_local((4,), T.int32)",
        "        for v in T.vectorized(4):", "            a[v] = A[ty, tx * 4 + v]",
        "            x[v] = X[tx * 4 + v]", "        for v in T.vectorized(4):",
        "            t = X[tx * 4 + v]",
    ]  # fmt: skip
    tail = ["        for v in T.serial(4):", "            Y[ty, tx, v] = a[v]",
            "            Z[ty, tx, v] = x[v]", "    return Y, Z"]  # fmt: skip
    text = "\n".join([*head, *("            " + line for line in lines), *tail]) + "\n"
    scope = names_of_text(text, tileprof=tileprof, T=T)
    one = np.arange(32, dtype="i4").reshape(2, 16) ** 2 % 37
    other = np.arange(16, dtype="i4") ** 3 % 41
    with tileprof.device("interpreter"):
        y, z = scope["drawn"](one, other)
    _, tx, v = np.ogrid[:2, :4, :4]
    state: dict[str, Any] = {"a": one.reshape(2, 4, 4), "x": other.reshape(1, 4, 4)}
    state["t"] = state["x"]
    for line in lines:
        target, _, value = line.partition(" = ")
        value = (
            value.replace("[v]", "").replace("A[ty, tx * 4 + v]", "A").replace("X[tx * 4 + v]", "X")
        )
        names = {**state, "A": one.reshape(2, 4, 4), "X": other.reshape(1, 4, 4), "v": v, "tx": tx}
        state[target[0]] = eval(value, {}, names)
    assert (y == state["a"]).all(), text
    assert (z == state["x"]).all(), text
