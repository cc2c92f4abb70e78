"""Bounds of indices in C++ that is generated: cost and text are linear in the number of ops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof import ir
from tileprof.compiler.codegen import emit, ranges
from tileprof.compiler.codegen.expressions import render
from tileprof.ir.builder import Builder


@pytest.mark.parametrize("kind", ["add", "mul", "max"])
def test_shared_operands_are_looked_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is both operands of the next, 16 times, takes 16 steps and not 2**16."""
    lines = [f"%v{n} = {kind} %v{n - 1}, %v{n - 1} : index" for n in range(1, 17)]
    body = "\n".join(["%c3 = constant 3 : index", "%v0 = add %i, %c3 : index", *lines])
    kernel = ir.parse(f"""
kernel @k() {{
  %c4 = constant 4 : index
  launch [%c4] {{threads = [32]}} body(%bx: index) {{
    parallel [%c4] body(%i: index) {{
      {body}
    }}
  }}
}}
""")
    steps, binary = [], ranges._binary

    def counted(kind: str, a: ranges.Interval, b: ranges.Interval) -> ranges.Interval:
        steps.append(kind)
        return binary(kind, a, b)

    monkeypatch.setattr(ranges, "_binary", counted)
    last = [op for op in kernel.ops() if isinstance(op, ir.Binary)][-1]
    first = next(op for op in kernel.ops() if isinstance(op, ir.Parallel)).body.args[0]
    low, high = ranges.interval(last.results[0], {first: (0, 3)}, {})
    assert len(steps) == 17
    for bound in (low, high):
        assert bound is None or bound.bit_length() <= 64


def _indexed(lines: list[str], last: str) -> str:
    """Return a kernel that writes to one element, whose index is computed inside a loop."""
    body = "\n".join(lines)
    return f"""
kernel @k(%x: out global<4, float32>) {{
  %c4 = constant 4 : index
  launch [%c4] {{threads = [32]}} body(%bx: index) {{
    parallel [%c4] body(%i: index) {{
      %first = lt %bx, %c4 : bool
      %v0 = add %bx, %c4 : index
      {body}
      %zero = constant 0.0 : float32
      store %zero, %x, [{last}]
    }}
  }}
}}
"""


SHARING = {
    "select": "select %first, %v{0}, %v{0}",
    "max": "max %v{0}, %v{0}",
    "floordiv": "floordiv %v{0}, %v{0}",
    "add": "add %v{0}, %v{0}",
}


@pytest.mark.parametrize("op", SHARING.values(), ids=SHARING)
def test_shared_operands_are_written_out_a_bounded_number_of_times(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each op adds as much text as the one before it, however many paths lead to its operands."""
    rendered = []

    def counted(owner: ir.OpBase, operands: list[str]) -> str:
        rendered.append(owner)
        return render(owner, operands)

    monkeypatch.setattr("tileprof.compiler.codegen.hoisting.render", counted)
    sizes = []
    for count in (80, 140, 200):
        rendered.clear()
        lines = [f"%v{n + 1} = {op.format(n)} : index" for n in range(count)]
        sizes.append(len(emit(ir.parse(_indexed(lines, f"%v{count}"))).text))
        assert len(rendered) <= count + 2
    first, second = (after - before for before, after in pairwise(sizes))
    assert second <= 1.5 * first


def test_long_sums_are_checked_at_each_point() -> None:
    """A sum of 100 terms is not compared in front of its loop; one of 20 terms is."""
    for terms, is_hoisted in ((20, True), (100, False)):
        made = [f"%w{n} = floordiv %v0, %d{n} : index" for n in range(terms)]
        divisors = [f"%d{n} = constant {n + 3} : index" for n in range(terms)]
        sums = [f"%s{n} = add %{'s' if n > 1 else 'w'}{n - 1}, %w{n} : index"
                for n in range(1, terms)]  # fmt: skip
        text = emit(ir.parse(_indexed([*divisors, *made, *sums], f"%s{terms - 1}"))).text
        assert (" else {" in text) == is_hoisted


def test_bounds_of_shared_sums_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 accesses at an index of 100 ops take its steps once, and one step each."""
    steps, binary = [], ranges._binary

    def counted(kind: str, a: ranges.Interval, b: ranges.Interval) -> ranges.Interval:
        steps.append(kind)
        return binary(kind, a, b)

    monkeypatch.setattr(ranges, "_binary", counted)
    chain = [f"%v{n + 1} = add %v{n}, %i : index" for n in range(100)]
    own = [f"%o{n} = add %v100, %i : index\nstore %zero{n}, %x, [%o{n}]" for n in range(100)]
    zeros = [f"%zero{n} = constant 0.0 : float32" for n in range(100)]
    emit(ir.parse(_indexed([*chain, *zeros, *own], "%o0")))
    assert len(steps) <= 2 * (len(chain) + len(own) + 1)


STEPS = ("add", "sub", "mul", "and", "or", "shl", "shr", "min", "max")


@given(
    source=st.sampled_from(["uint8", "int8", "int32"]),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(-3, 1 << 20)), max_size=5),
    value=st.integers(-(1 << 31), (1 << 31) - 1),
)
def test_small_whole_numbers_become_narrow_floats_without_rounding_twice(
    source: str, steps: list[tuple[str, int]], value: int
) -> None:
    """A number that counts as exact is the same number as a float32, even where it wrapped."""
    builder = Builder(ir.Block())
    start = ir.Value(ir.dtype(source))
    made = builder.emit(ir.Cast(start, ir.dtype("int32"))).result
    known = np.array([value]).astype(source).astype("i4")
    for kind, number in steps:
        other = number & 31 if kind in ("shl", "shr") else number
        constant = builder.constant(other, ir.dtype("int32"))
        made = builder.emit(ir.Binary(kind, made, constant)).result  # type: ignore[arg-type]
        known = _WRAPPING[kind](known, np.int32(other))
    if ranges.is_exact(made):
        assert int(known[0]) == int(np.float32(known[0]))


_WRAPPING = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
    "or": np.bitwise_or, "shl": np.left_shift, "shr": np.right_shift, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "exact"),
    [
        ([("and", 15)], True),
        ([("and", 15), ("sub", 8), ("mul", 3)], True),
        ([("shl", 28), ("shr", 28)], True),
        ([("shr", 4)], False),
        ([("and", 15), ("shl", 30)], False),
    ],
)  # fmt: skip
def test_numbers_of_few_bits_are_exact(steps: list[tuple[str, int]], exact: bool) -> None:
    """Bits of an int32 that were cut out or shifted down, and what is computed from these."""
    builder = Builder(ir.Block())
    made = ir.Value(ir.dtype("int32"))
    for kind, number in steps:
        constant = builder.constant(number, ir.dtype("int32"))
        made = builder.emit(ir.Binary(kind, made, constant)).result  # type: ignore[arg-type]
    assert ranges.is_exact(made) == exact
