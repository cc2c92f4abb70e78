"""Bounds of indices in C++ that is generated: cost and text are linear in the number of ops."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tileprof import ir
from tileprof.compiler.codegen import emit, ranges
from tileprof.compiler.codegen.expressions import render


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
