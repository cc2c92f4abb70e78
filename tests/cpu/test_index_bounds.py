"""Fixed bounds of indices in C++ that is generated: shared operands cost nothing again."""

from __future__ import annotations

import pytest

from tileprof import ir
from tileprof.compiler.codegen import ranges


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
    low, high = ranges.interval(last.results[0], {first: (0, 3)})
    assert len(steps) == 17
    for bound in (low, high):
        assert bound is None or bound.bit_length() <= 64
