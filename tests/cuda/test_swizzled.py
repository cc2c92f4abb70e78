"""Addresses in swizzled memory as steps from a thread's first: equal to those of the layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.emit.buffers import SharedBuffer
from tileprof.compiler.cuda.emit.loops.digit_runs import Run, runs_of
from tileprof.compiler.cuda.emit.swizzled import Swizzled, swizzled_steps
from tileprof.compiler.cuda.layouts import Digit, RegisterLayout, SharedLayout
from tileprof.ir.scalar import BinaryKind

INDEX = ir.dtype("index")


def binary(kind: BinaryKind, left: ir.Value, number: int) -> ir.Value:
    """`left kind number`."""
    return ir.Binary(kind, left, ir.Constant(number, INDEX).result).result


def load(buffer: SharedBuffer, indices: Sequence[ir.Value]) -> ir.Load:
    """An element of the buffer."""
    held = ir.Alloc("shared", buffer.shape, buffer.dtype).result
    return ir.Load(held, list(indices))


def named(layout: RegisterLayout) -> list[Run]:
    """The loops over registers, as the emission has them."""
    return runs_of([(d, ()) for d in layout.registers])


def addresses(made: Swizzled, runs: Sequence[Run], first: int) -> list[int]:
    """What the text gives for all registers, the first run fastest."""
    names = [f"r{n}" for n in range(len(runs))]
    called = [Run(r.count, r.step, (), n) for r, n in zip(runs, names, strict=True)]
    text = str(made.offset(called, 0)).replace(made.base, "base")
    found = []
    for numbers in product(*(range(r.count) for r in reversed(runs))):
        given = dict(zip(names, reversed(numbers), strict=True))
        # Operators bind in Python as they do in C.
        found.append(int(eval(text, {"base": first, **given})))
    return found


@st.composite
def layouts(draw: st.DrawFn) -> RegisterLayout:
    """128 threads over 64 rows and 64 columns, the bits of both in any order."""
    bits = [(1 << n, 0) for n in range(6)] + [(0, 1 << n) for n in range(6)]
    order = draw(st.permutations(bits))
    digits = [Digit(2, step) for step in order]
    return RegisterLayout.make((64, 64), digits[:5], digits[5:10], digits[10:])


@settings(max_examples=examples(60), deadline=None)
@given(layouts(), st.sampled_from([32, 64, 128]), st.sampled_from(["float16", "uint8"]),
       st.sampled_from([0, 64]), st.booleans())  # fmt: skip
def test_equal_to_the_layout(
    layout: RegisterLayout, swizzle: Literal[32, 64, 128], dtype: str, shift: int, halved: bool
) -> None:
    """Whatever bits registers step over: transposed tiles, parts of a wider one, bytes of pairs."""
    shared = SharedLayout((64, 256), ir.dtype(dtype), swizzle)
    buffer = SharedBuffer("s", shared.dtype, shared, "s", (64, 256))
    i, j = ir.Value(INDEX), ir.Value(INDEX)
    within = binary("floordiv", j, 2) if halved else j
    column = binary("add", within, shift)
    runs = named(layout)
    made = swizzled_steps(load(buffer, [i, column]), buffer, [i, j], layout, runs)
    assert made is not None
    made = Swizzled(made.mask, made.steps, "s_at")
    table = layout.table()
    columns = (table[..., 1] // 2 if halved else table[..., 1]) + shift
    expected = shared.address(np.stack([table[..., 0], columns], axis=-1))
    for thread in (0, 1, 37, 127):
        assert addresses(made, runs, int(expected[thread, 0])) == expected[thread].tolist()
    # A part that is known at run time only is in the first address alone.
    whole = ir.Binary("add", binary("mul", ir.Value(INDEX), 128), column).result
    named_too = swizzled_steps(load(buffer, [i, whole]), buffer, [i, j], layout, runs)
    assert named_too == Swizzled(made.mask, made.steps)
    expected = shared.address(np.stack([table[..., 0], columns + 128], axis=-1))
    for thread in (0, 1, 37, 127):
        assert addresses(made, runs, int(expected[thread, 0])) == expected[thread].tolist()


def test_bits_that_threads_leave_are_added() -> None:
    """Instructions take them as immediates; only the exchanged bit is masked out."""
    layout = RegisterLayout.make(
        (64, 64),
        [Digit(2, (0, 1)), Digit(2, (8, 0)), Digit(8, (0, 8))],
        [Digit(4, (0, 2)), Digit(8, (1, 0))],
        [Digit(4, (16, 0))],
    )
    shared = SharedLayout((64, 64), ir.dtype("float16"), 128)
    buffer = SharedBuffer("s", shared.dtype, shared, "s", (64, 64))
    i, j = ir.Value(INDEX), ir.Value(INDEX)
    runs = [
        Run(2, (0, 1), (), "e"),
        Run(2, (8, 0), (), "r"),
        Run(8, (0, 8), (), "q"),
    ]
    made = swizzled_steps(load(buffer, [i, j]), buffer, [i, j], layout, runs)
    assert made is not None
    named = Swizzled(made.mask, made.steps, "at")
    assert named.offset(runs, "slot * 8192") == "slot * 8192 + (at ^ (q * 16)) + e * 2 + r * 1024"
    half = [Run(2, (0, 1), (), "e"), Run(2, (8, 0), (), "r"), Run(2, (0, 32), (), "h")]
    assert named.offset(half, 0) == "(at ^ (h * 64)) + e * 2 + r * 1024"


@pytest.mark.parametrize("name", ["carry", "loaded", "outside", "inside", "padded"])
def test_other_addresses_have_no_such_form(name: str) -> None:
    """Sums that carry, and numbers that the points alone do not give."""
    layout = RegisterLayout.make(
        (8, 64), [Digit(4, (0, 1))], [Digit(16, (0, 4)), Digit(2, (1, 0))], [Digit(4, (2, 0))]
    )
    pad, swizzle = (8, 0) if name == "padded" else (0, 128)
    shared = SharedLayout((8, 128), ir.dtype("float16"), swizzle, pad)  # type: ignore[arg-type]
    buffer = SharedBuffer("s", shared.dtype, shared, "s", (8, 128))
    i, j, inner = ir.Value(INDEX), ir.Value(INDEX), ir.Value(INDEX)
    column = {
        "carry": binary("add", j, 3),
        "loaded": load(buffer, [i, j]).result,
        "outside": ir.Binary("add", j, ir.Value(INDEX)).result,
        "inside": ir.Binary("add", j, binary("mul", inner, 64)).result,
        "padded": j,
    }[name]
    found = load(buffer, [i, column])
    assert swizzled_steps(found, buffer, [i, j], layout, named(layout), [inner]) is None
