"""The program that each form of a kernel becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.lang import examples
from tileprof import ir

KERNELS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: examples.matmul.compile(M=256, N=192, K=100),
    "matmul_lazy": lambda: examples.matmul_lazy(256, 192, 100),
    "softmax": lambda: examples.softmax.compile(N=100),
    "flash_attention": lambda: examples.flash_attention(2, 4, 256, 64, True),
    "persistent": lambda: examples.persistent.compile(M=64, N=48),
    "scalars": lambda: examples.scalars.compile(N=64),
}


@pytest.mark.parametrize("name", KERNELS)
def test_program(name: str, golden: Callable[[str], None]) -> None:
    """The text of the traced program; it is valid and parses back with every location."""
    kernel = KERNELS[name]().traced
    ir.verify(kernel)
    text = ir.print_kernel(kernel, locations=True)
    assert ir.print_kernel(ir.parse(text), locations=True) == text
    golden(ir.print_kernel(kernel))


def test_both_forms_are_one_program() -> None:
    """A fixed `T.dynamic` extent gives the kernel that a `T.const` one gives."""
    fixed = examples.softmax.compile(N=100, m=8).traced
    assert fixed.symbols == ()
    assert fixed.params[0].type == ir.BufferType((8, 100), ir.dtype("float32"), "global")


def test_every_op_has_its_line() -> None:
    """Spans name the file, the line, the columns and the function, and the call into a macro."""
    kernel = examples.scalars.compile(N=64).traced
    divide = next(op for op in kernel.ops() if isinstance(op, ir.Binary) and op.kind == "div")
    span = divide.span
    assert span is not None
    assert span.file == examples.__file__
    assert span.excerpt() == "    x = x / 2\n        ^^^^^"
    assert span.function == "halves"
    assert span.caller is not None
    assert span.caller.excerpt() == (
        "    B[at] = halves(A[at], alpha)\n            ^^^^^^^^^^^^^^^^^^^^"
    )
    assert span.caller.function == "scalars"
    assert all(op.span is not None for op in kernel.ops())


@pytest.mark.parametrize("group", [1, 2, 3, 8])
@pytest.mark.parametrize(("rows", "columns"), [(64, 48), (16, 80), (33, 70)])
def test_persistent_visits_every_tile_once(group: int, rows: int, columns: int) -> None:
    """Each tile is raised by 1, whatever the size of the groups."""
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    with tileprof.device("interpreter"):
        out = examples.persistent(a, 3, group)
    np.testing.assert_array_equal(out, a + 1)


def test_scalars_of_the_launch() -> None:
    """`alpha` and `n` are known when the kernel runs: other values, the same kernel."""
    a = np.array([1.0, 10.0, 100.0, 5.0], np.float32)
    with tileprof.device("interpreter"):
        first = examples.scalars(a, 2.0, 4)
        second = examples.scalars(a, 20.0, 3)
    assert first.tolist() == [0, 3, 6, 2]
    assert second.tolist() == [0, 0, 3, 0]
