"""Threads that return do nothing more; the others go on, on every device."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import refused_in_place, same_everywhere
from tileprof.errors import KernelError

same = partial(same_everywhere, debug=False)
X = np.random.default_rng(5).integers(-9, 9, 70).astype(np.int32)


@tileprof.jit
def by_thread(A, threads: int = 32):
    """Threads beyond the end return before they read."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as b:
        i = b * threads + T.get_thread_binding()
        if i >= N:
            T.thread_return()
        held = T.alloc_local((1,), T.int32)
        T.clear(held)
        for k in T.serial(3):
            held[0] += A[i] * k
        B[i] = held[0]
    return B


@tileprof.jit
def in_either_branch(A, threads: int = 32):
    """Those that return do so with results of their own."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as b:
        i = b * threads + T.get_thread_binding()
        if i < N:
            x = A[i]
        else:
            T.thread_return()
        if x < 0:
            B[i] = -1
            T.thread_return()
        B[i] = x
    return B


@tileprof.jit
def in_a_branch_of_a_branch(A, threads: int = 32):
    """What follows the outer branch runs for threads that did not return inside of it."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, threads), threads=threads) as b:
        i = b * threads + T.get_thread_binding()
        if i >= N:
            T.thread_return()
        y = T.alloc_var(T.int32, 0)
        if A[i] > 0:
            y = 1
            if A[i] > 4:
                B[i] = 100
                T.thread_return()
            y = y + A[i]
        B[i] = 7 + y
    return B


@tileprof.jit
def by_block(A, tile: int = 32):
    """All threads of a block return, before operations on whole tiles."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, tile) + 2, threads=32) as b:
        held = T.alloc_fragment((tile,), T.int32)
        if b * tile >= N:
            T.thread_return()
        T.copy(A[b * tile], held)
        for i in T.Parallel(tile):
            held[i] = held[i] * 2
        T.copy(held, B[b * tile])
    return B


@tileprof.jit
def with_rows_of_its_own(A, width: int = 5):
    """Copies and fills of what a thread has for itself, after some have returned."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N // 5, 5), T.float32)
    with T.Kernel(1, threads=32):
        row = T.get_thread_binding()
        ones, held = T.alloc_local((width,), T.int32), T.alloc_local((1, width), T.int32)
        if row * width >= N:
            T.thread_return()
        T.fill(ones, 1)
        T.copy(A[row * width : row * width + width], held[0, :])
        for k in T.serial(width):
            held[0, k] += ones[k]
        T.copy(held, B[row, 0:width])
    return B


@T.macro
def end_if(flag):
    """A macro that ends the caller's threads."""
    if flag:
        T.thread_return()


@tileprof.jit
def in_a_macro(A, only_first: bool):
    """Known at compile time, inside of a branch that is not."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    B = T.empty((N,), T.int32)
    with T.Kernel(N, threads=32) as b:
        if b < 5:
            B[b] = A[b]
            end_if(only_first)
            B[b] = B[b] + 1
        else:
            B[b] = 0
    return B


EXPECTED = {
    by_thread: X * 3,
    in_either_branch: np.where(X < 0, -1, X),
    in_a_branch_of_a_branch: np.where(X > 4, 100, np.where(X > 0, 8 + X, 7)),
    by_block: X * 2,
    with_rows_of_its_own: (X + 1).reshape(-1, 5),
}


@pytest.mark.spread("in_either_branch", "by_block")
@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda k: k.__name__)
def test_threads_that_return_do_nothing_more(kernel: Any) -> None:
    """Under one condition, in either branch, in a branch of a branch, and for a whole block."""
    same(kernel, [X], EXPECTED[kernel])


@pytest.mark.parametrize("only_first", [False, True])
def test_return_of_a_macro_ends_its_caller(only_first: bool) -> None:
    """The condition in the macro is known at compile time, the one around its call is not."""
    first = X[:5] + (not only_first)
    same(in_a_macro, [X], [*first, *np.zeros(len(X) - 5, np.int32)], only_first=only_first)


@tileprof.jit
def from_a_loop(A):
    """A thread cannot say which iteration was its last."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(2, threads=32) as b:
        for k in T.serial(4):
            if A[b] > k:
                T.thread_return()
            A[b] = k


def test_return_from_a_loop_is_refused() -> None:
    """The error names the line."""
    refused_in_place(from_a_loop, X[:64], KernelError, "inside of a loop", __file__)


@tileprof.jit
def takes_a_name_again(A, scale):
    """A name that is a tensor at the start of each iteration, and a number later in it."""
    A: T.Tensor((4, 32), T.int32)
    scale: T.Tensor((4,), T.int32)
    B = T.empty((4, 32), T.int32)
    with T.Kernel(1, threads=32):
        for k in T.serial(4):
            for i in T.Parallel(32):
                B[k, i] = A[k, i] * scale[k]
            for i in T.Parallel(1):
                scale, twice = A[k, i] + 1, A[k, i] * 2
                B[k, i] = B[k, i] + scale + twice
    return B


def test_name_of_a_tensor_may_become_a_number_in_an_iteration() -> None:
    """The program is read once: at the start of each iteration it is the tensor."""
    given, scale = X[:64].repeat(2).reshape(4, 32), np.arange(4, dtype=np.int32)
    wanted = given * scale[:, None]
    wanted[:, 0] += given[:, 0] * 3 + 1
    same(takes_a_name_again, [given, scale], wanted)
