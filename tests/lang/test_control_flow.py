"""Loops, branches and rebound names in a kernel mean what they mean in Python."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.lang.checks import names_of_text
from tests.lang.flows import FLOWS, SIZE, run_flow
from tests.spread import examples
from tileprof import ir

DATA = [3, 14, 7, 9, 21, 5, 2, 16, 8, 11, 30, 4]


def in_kernel(flow: Any, data: list[int], n: int) -> list[int]:
    """What the function leaves in `B` when it is traced and interpreted."""
    with tileprof.device("interpreter"):
        out = run_flow(np.array(data, np.int32), T.macro(flow), n)
    return [int(x) for x in out]


def in_python(flow: Callable[..., Any], data: list[int], n: int) -> list[int]:
    """What it leaves there when Python runs it."""
    out = [0] * SIZE
    flow(list(data), out, n)
    return out


@pytest.mark.parametrize("n", [SIZE, 8])
@pytest.mark.parametrize("flow", FLOWS, ids=lambda f: str(f.__name__))
def test_means_what_python_means(flow: FunctionType, n: int) -> None:
    """The kernel and Python leave the same numbers."""
    assert in_kernel(flow, DATA, n) == in_python(flow, DATA, n)


NAMES = ("x", "y", "z")
EXPRESSIONS = st.sampled_from(
    ["x + 1", "y - x", "z * 2 % 11", "A[i % 12]", "i", "x // 3 + z", "(x if y > z else A[2])",
     "(y if x > 3 and A[x % 12] > 4 else z)", "min(x, y)", "-z", "7"]
)  # fmt: skip
CONDITIONS = st.sampled_from(
    ["x > y", "z % 2 == 0", "A[i % 12] > 8", "not x < 3", "i == 2 or y > x", "0 < z < 9",
     "x != y and z != 1"]
)  # fmt: skip


def statements(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    """Lines of Python over three integers, `A`, `B` and a loop variable `i`."""
    simple = st.one_of(
        st.builds("{} = {}".format, st.sampled_from(NAMES), EXPRESSIONS),
        st.builds("{} += {}".format, st.sampled_from(NAMES), EXPRESSIONS),
        st.builds("B[{} % 12] = {}".format, st.sampled_from(["i", "x", "3"]), EXPRESSIONS),
        st.just("x, y = y, x"),
    ).map(lambda line: [line])
    options = [simple, simple]
    if in_loop:
        jump = st.sampled_from(["break", "continue"])
        options.append(st.builds(lambda c, j: [f"if {c}:", f"    {j}"], CONDITIONS, jump))
    if depth:
        inner = statements(depth - 1, in_loop)
        looped = statements(depth - 1, True)
        options.append(st.builds(_branch, CONDITIONS, inner, inner))
        options.append(
            st.builds(lambda b: ["for k in range(4):", "    i = k", *_indent(b)], looped)
        )
        options.append(st.builds(_while, st.just(f"t{depth}"), CONDITIONS, looped))
    return st.lists(st.one_of(*options), min_size=1, max_size=4).map(
        lambda parts: list(chain(*parts))
    )


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _branch(condition: str, then: list[str], otherwise: list[str]) -> list[str]:
    return [f"if {condition}:", *_indent(then), "else:", *_indent(otherwise)]


def _while(count: str, condition: str, body: list[str]) -> list[str]:
    # Counted first, so that `continue` cannot skip the count that ends the loop.
    head = [f"{count} = 0", f"while {count} < 3 and ({condition}):", f"    {count} += 1"]
    return [*head, *_indent(body)]


def compile_text(lines: list[str]) -> Callable[..., Any]:
    """A function whose source Python can find."""
    head = ["def flow(A, B, n):", "    x = n", "    y = 2", "    z = A[1]", "    i = 1"]
    tail = ["    B[0] += x", "    B[1] += y * 3", "    B[2] += z"]
    text = "\n".join([*head, *_indent(lines), *tail]) + "\n"
    # In a kernel `min` of Python compares; `T.min` computes.
    made: Callable[..., Any] = names_of_text(text, min=T.min)["flow"]
    return made


@settings(max_examples=examples(60), deadline=None)
@given(statements(2, False), st.lists(st.integers(-20, 20), min_size=12, max_size=12))
def test_random_programs_mean_what_python_means(lines: list[str], data: list[int]) -> None:
    """Random branches, loops, jumps and rebound names: the kernel and Python agree."""
    flow = compile_text(lines)
    assert in_kernel(flow, data, 5) == in_python(flow, data, 5)


def test_static_branches_leave_no_trace() -> None:
    """What Python knows is decided while the kernel is compiled."""

    def flow(A: Any, B: Any, n: Any) -> None:
        if SIZE > 100:
            B[0] = A[0]
        elif SIZE == 12 and not None:
            B[1] = 5

    kernel = run_flow.compile(flow=T.macro(flow)).traced
    assert not any(isinstance(op, ir.If) for op in kernel.ops())
    assert in_kernel(flow, DATA, 1)[1] == 5


@tileprof.jit
def options_in_conditions(A, B, keep: bool, either: bool):
    """Conditions of the kernel beside those that Python knows; `B` may be missing."""
    A: T.Tensor((8,), T.int32)
    if keep:
        B: T.Tensor((8,), T.int32)
    C = T.empty((8,), T.int32)
    with T.Kernel(8, threads=32) as b:
        C[b] = 0
        if A[b] > 0 and keep and b < 6:
            C[b] = 1
        if A[b] > 0 and b < 4 and keep:
            C[b] += B[b]
        if A[b] > 0 or either:
            C[b] += 10
        if either or A[b] > 2 or keep:
            C[b] += 100
    return C


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("either", [True, False])
def test_operand_that_python_knows_decides_a_condition(keep: bool, either: bool) -> None:
    """The body of `if x > 0 and False` is no part of the kernel: its tensor may be None."""
    a, b = np.array([1, -1, 3, 4, 5, -6, 7, 8], np.int32), np.arange(8, dtype=np.int32)
    right = np.where((a > 0) & keep & (b < 6), 1, 0) + np.where((a > 0) & (b < 4) & keep, b, 0)
    right += np.where((a > 0) | either, 10, 0) + np.where(either | (a > 2) | keep, 100, 0)
    for device in ("interpreter", "cpu"):
        with tileprof.device(device):
            made = options_in_conditions(a, b if keep else None, keep, either)
        assert made.tolist() == right.tolist(), device
