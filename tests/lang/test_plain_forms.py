"""Control flow written as calls means what Python's own statements mean."""

# mypy: ignore-errors
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.errors import KernelError, TileprofError

DEVICES = ("interpreter", "cpu")


@tileprof.jit
def framed(x: Any, n: int) -> Any:
    """Branches of context managers, one in the other."""
    x: T.Tensor((8,), "int32")
    out = T.empty((8,), "int32")
    with T.Kernel(1):
        for i in T.serial(8):
            with T.If(x[i] < n):
                with T.Then():
                    with T.If(x[i] < 0), T.Then():
                        out[i] = -1
                    with T.If(T.Not(x[i] < 0)), T.Then():
                        out[i] = 1
                with T.Else():
                    out[i] = x[i] * 2
    return out


@tileprof.jit
def boxed(x: Any) -> Any:
    """A loop over a box."""
    x: T.Tensor((2, 3, 4), "int32")
    out = T.empty((2, 3, 4), "int32")
    with T.Kernel(1):
        for i, j, k in T.grid(2, 3, 4):
            if x[i, j, k] < 0:
                out[i, j, k] = 0
                continue
            out[i, j, k] = x[i, j, k] + 100 * i + 10 * j + k
    return out


@tileprof.jit
def ended(x: Any) -> Any:
    """A loop that ends early."""
    x: T.Tensor((8,), "int32")
    out = T.empty((8,), "int32")
    with T.Kernel(1):
        T.clear(out)
        for i in T.serial(8):
            if x[i] < 0:
                T.loop_break()
            out[i] = x[i]
    return out


X = np.array([3, 0, 9, 4, -2, 7, -5, 1], np.int32)


@pytest.mark.parametrize("device", DEVICES)
def test_branch_of_context_managers_is_an_if(device: str) -> None:
    """`T.If` with `T.Then` and `T.Else`, one in the other, and both on one line."""
    with tileprof.device(device):
        got = framed(X, 5)
    np.testing.assert_array_equal(got, np.where(X < 5, np.where(X < 0, -1, 1), X * 2))


@pytest.mark.parametrize("device", DEVICES)
def test_grid_is_loops_in_loops(device: str) -> None:
    """`T.grid` visits every point; `continue` goes on with the next one."""
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4) - 5
    i, j, k = np.indices(x.shape)
    with tileprof.device(device):
        got = boxed(x)
    np.testing.assert_array_equal(got, np.where(x < 0, 0, x + 100 * i + 10 * j + k))


@pytest.mark.parametrize("device", DEVICES)
def test_loop_break_ends_the_loop(device: str) -> None:
    """Elements behind the first negative number are left alone."""
    with tileprof.device(device):
        got = ended(X)
    np.testing.assert_array_equal(got, [3, 0, 9, 4, 0, 0, 0, 0])


def test_debugging_runs_the_same_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running a kernel line by line decides a branch of context managers, too."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    with tileprof.device("interpreter"):
        np.testing.assert_array_equal(framed(X, 5), [1, 1, 18, 1, -1, 14, -1, 1])
        np.testing.assert_array_equal(ended(X), [3, 0, 9, 4, 0, 0, 0, 0])


@tileprof.jit
def loose(x: Any) -> Any:
    """`T.Then` on its own."""
    x: T.Tensor((8,), "int32")
    with T.Kernel(1), T.Then():
        x[0] = 1


@tileprof.jit
def two_then(x: Any) -> Any:
    """A statement of `T.If` in no branch."""
    x: T.Tensor((8,), "int32")
    with T.Kernel(1), T.If(x[0] < 1):
        x[1] = 1
        with T.Then():
            x[0] = 1


@tileprof.jit
def broken_grid(x: Any) -> Any:
    """A `break` that leaves two loops or one."""
    x: T.Tensor((8,), "int32")
    with T.Kernel(1):
        for i, j in T.grid(2, 4):
            if x[i] > j:
                break


@tileprof.jit
def no_loop(x: Any) -> Any:
    """A `break` of no loop."""
    x: T.Tensor((8,), "int32")
    with T.Kernel(1):
        T.loop_break()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (loose, "`T.Then` outside of a branch"),
        (two_then, "`T.If` outside of a branch"),
        (broken_grid, "`T.grid` in a form"),
        (no_loop, "`T.loop_break\\(\\)` outside of a loop"),
    ],
)
def test_other_forms_are_refused(kernel: Any, message: str) -> None:
    """A form that stands for no statement names its line and the form that does."""
    with pytest.raises(KernelError, match=message) as caught, tileprof.device("interpreter"):
        kernel(X.copy())
    assert isinstance(caught.value, TileprofError)
    assert caught.value.location is not None
    assert caught.value.hint
