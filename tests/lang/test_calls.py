"""Arguments of a call: what fits, what does not and why, and when a kernel is compiled again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.lang import called
from tileprof import ir
from tileprof.errors import ArgumentError, DTypeError, TileprofError, UsageError

A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _interpreter() -> Iterator[None]:
    with tileprof.device("interpreter"):
        yield


def test_by_position_and_by_name() -> None:
    """Arguments bind as in Python, defaults included."""
    expected = A * 6
    np.testing.assert_array_equal(called.scale(A, 3.0), expected)
    np.testing.assert_array_equal(called.scale(alpha=3, A=A, block=2), expected)
    np.testing.assert_array_equal(called.scale(A, np.float64(3), 8), expected)


def test_a_transposed_array_is_read_by_its_strides() -> None:
    """An array that is not contiguous is another kernel, with strides known at launch."""
    np.testing.assert_array_equal(called.scale(A.T, 0.5), A.T)
    np.testing.assert_array_equal(called.scale(A[::2, 1:], 0.5), A[::2, 1:])
    strided = [v.traced.kernel for v in called.scale._variants.values() if v.traced.kernel.symbols]
    assert strided[0].params[0].type == ir.BufferType(
        (4, 3), ir.dtype("float32"), "global", ("A_stride0", "A_stride1")
    )


def test_run_time_extents_share_a_kernel() -> None:
    """`T.dynamic` extents and scalars do not compile again; `T.const` ones do."""
    for m in (1, 3, 7):
        a = np.zeros((m, 4), np.float32)
        called.rows(a)
        np.testing.assert_array_equal(a, np.repeat(np.arange(m), 4).reshape(m, 4))
    assert len(called.rows._variants) == 1
    before = len(called.scale._variants)
    called.scale(np.ones((5, 6), np.float32), 1.0)
    called.scale(np.ones((5, 6), np.float32), 2.0)
    assert len(called.scale._variants) == before + 1


def test_a_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of the module that the kernel reads is part of what it is compiled for."""
    np.testing.assert_array_equal(called.scale(A, 1.0), A * 2)
    monkeypatch.setattr(called, "FACTOR", 10)
    np.testing.assert_array_equal(called.scale(A, 1.0), A * 10)


def test_closures_and_later_names() -> None:
    """Names of the function around the kernel and names defined after it."""
    a, b = np.array([2.0, 3.0], np.float32), np.array([2.0, 3.0], np.float32)
    called.make_power(2)(a)
    called.make_power(3)(b)
    assert (a.tolist(), b.tolist()) == ([5, 10], [9, 28])


def test_scalars_annotated_in_the_body() -> None:
    """`n: T.int32` in the body makes the argument one of the launch; extents may use it."""
    for n in (3, 5):
        a = np.zeros(n, np.float32)
        called.late_scalars(a, n)
        assert a.tolist() == [n] * n
    assert len(called.late_scalars._variants) == 1


def test_factory_of_kernels() -> None:
    """A function that returns a `prim_func` gives one kernel for each combination of arguments."""
    kernel = called.split(4)
    low, high = kernel(np.array([1.0, 2.0, 3.0, 4.0], np.float32), 10)
    assert (low.tolist(), high.tolist()) == ([11, 12], [4, 5])
    assert called.split(4) is kernel
    assert called.split(4, shift=2) is not kernel
    assert called.split(4, shift=True) is not kernel
    assert [p.role for p in kernel.traced.params] == ["in", "out", "in", "out"]


def test_compile_a_program() -> None:
    """A `prim_func` by itself: outputs are arguments, or allocated with `out_idx`."""
    a, b = np.array([1, 2, 3], np.int32), np.zeros(3, np.int32)
    assert tileprof.compile(called.doubled)(a, b) is None
    assert b.tolist() == [2, 4, 6]
    kernel = tileprof.compile(called.doubled, out_idx=-1)
    assert kernel(a).tolist() == [2, 4, 6]
    assert kernel(A=a[::-1]).tolist() == [6, 4, 2]
    assert called.doubled.compile(n=3).traced.symbols == ()


def test_compiled_kernel() -> None:
    """What `compile` gives: the program, its source, remarks; fixed extents are checked."""
    kernel = called.scale.compile(M=3, N=4, block=2)
    assert kernel.traced.name == "scale"
    assert "scale" in kernel.get_kernel_source()
    assert isinstance(kernel.remarks, tuple)
    np.testing.assert_array_equal(kernel(A, 2), A * 4)
    with pytest.raises(ArgumentError, match="has 5 in dimension 0, and 3 is expected"):
        kernel(np.ones((5, 4), np.float32), 2)


def test_arrays_of_frameworks() -> None:
    """PyTorch in, PyTorch out; anything with DLPack."""
    torch = pytest.importorskip("torch")
    out = called.scale(torch.from_numpy(A), 1.5)
    assert isinstance(out, torch.Tensor)
    np.testing.assert_array_equal(out.numpy(), A * 3)

    class Wrapped:
        def __dlpack__(self, **options: Any) -> Any:
            return A.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return A.__dlpack_device__()

    np.testing.assert_array_equal(called.scale(Wrapped(), 1.5), A * 3)


def test_python_values_of_a_table() -> None:
    """A tuple, and NumPy numbers in it, are known at compile time."""
    a = np.ones(4, np.float32)
    called.numpy_constants(a, (1, np.float32(0.5), np.int64(2)))
    assert a.tolist() == [3.5] * 4


MISTAKES: dict[str, Callable[[], Any]] = {
    "rank": lambda: called.scale(A[0], 1.0),
    "extent": lambda: called.rows(np.ones((2, 5), np.float32)),
    "other_extent": lambda: called.same_rows(A, np.zeros(4, np.int32)),
    "element_type": lambda: called.scale(A.astype(np.float64), 1.0),
    "no_element_type": lambda: called.scale(A.astype(np.complex64), 1.0),
    "not_an_array": lambda: called.scale("A", 1.0),
    "scalar": lambda: called.scale(A, "fast"),
    "scalar_not_whole": lambda: called.late_scalars(np.ones(2, np.float32), 2.5),
    "missing": lambda: called.scale(A),
    "too_many": lambda: called.split(4)(A, 1, A),
    "no_hash": lambda: called.scale(A, 1.0, bytearray(b"4")),
    "unknown_name": lambda: called.scale(A, 1.0, size=3),
    "unknown_extent": lambda: called.scale.compile(M=3, N=4, K=5),
    "not_annotated": lambda: called.unannotated(np.ones(4, np.float32), A),
    "no_value": lambda: called.split.compile(dtype="int32"),
    "out_idx": lambda: tileprof.compile(called.doubled, out_idx=[2]),
}


def test_messages(golden: Callable[[str], None]) -> None:
    """Each mistake names the argument, what was expected and found, and where the kernel is."""
    shown = []
    for name, mistake in MISTAKES.items():
        with pytest.raises(TileprofError) as caught:
            mistake()
        assert isinstance(caught.value, (ArgumentError, UsageError, DTypeError))
        text = str(caught.value).replace(str(Path(__file__).parent) + "/", "")
        shown.append(f"# {name}\n{type(caught.value).__name__}: {text}\n")
    golden("\n".join(shown))


def test_the_users_own_error_is_unchanged() -> None:
    """An exception of the user's code keeps its class, its text and its line."""
    with pytest.raises(KeyError, match="'b'") as caught:
        called.faulty(np.ones(4, np.float32))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name, last.line) == (
        called.__file__,
        "faulty",
        'A[bx] = {"a": 1.0}[name]',
    )


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_none_stands_for_a_tensor_that_the_kernel_does_not_use(device: str) -> None:
    """Its extents matter to nobody; another call may pass one."""
    rows = np.arange(24, dtype=np.float32).reshape(3, 8)
    made = np.zeros_like(rows)
    kernel = called.scaled(has_scale=False)
    with tileprof.device(device):
        for _ in range(2):
            kernel(rows, None, made)
        np.testing.assert_array_equal(made, rows * 2)
        kernel(rows, np.ones((3, 4), np.float32), made)
        with pytest.raises(ArgumentError, match="a tensor or None is expected"):
            kernel(rows, 3, made)


def test_none_for_a_tensor_that_the_kernel_uses_is_an_error() -> None:
    """The error says which argument it is."""
    rows = np.ones((3, 8), np.float32)
    with pytest.raises(ArgumentError, match="argument `S` of `scaled` is not an array"):
        called.scaled(has_scale=True)(rows, None, rows)


def test_factory_returns_the_kernel_it_compiled() -> None:
    """The kernel is the one of the inner call; outputs cannot be chosen twice."""
    kernel = tileprof.jit(called.built)(40)
    assert np.array_equal(kernel(np.zeros(40, np.float32)), np.ones(40))
    with pytest.raises(UsageError, match="returns a compiled kernel"):
        tileprof.jit(out_idx=[1])(called.built)(40)
