"""Fragments that are exchanged through shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.analyzer.compiled import compiled, remarks_of, with_code
from tests.analyzer.defects import counted, line_of, product, turned
from tests.analyzer.made import FILE, Made, found, only, program, stored
from tileprof import binary
from tileprof.errors import Location

RULE = "layout-convert"
LINE = line_of("for i, j in T.Parallel(32, 32)")
"""Of the loop in `defects.turned` that reads a fragment both ways."""


STORED = line_of("T.copy(g, ")


def costly(each: binary.Instruction, line: int) -> Mapping[str, int]:
    """Each load of the exchange waits; its first store waits for what it stores."""
    if line == LINE and each.name == "LDS":
        return {"mio_throttle": 500}
    if line == LINE and each.name == "STS":
        return {"long_scoreboard": 3000}
    return {"selected": 3000} if each.name == "STG" else {}


def test_what_the_compiler_says_is_a_warning() -> None:
    """The line, the buffer, and both ways out; no number."""
    finding = only(program(Made(remarks=remarks_of(compiled(turned)))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert (finding.place.op, finding.title) == (
        "buffer f", "`f` is exchanged between threads through shared memory"
    )  # fmt: skip
    assert f"the layout of line {line_of('f = T.alloc_fragment')}" in finding.static[0].text
    assert finding.compiler


def test_its_loads_and_stores_cost() -> None:
    """8 loads of 500 samples, of 16,000 in all: 85 % of a quarter; waits for memory stay."""
    finding = only(program(with_code(compiled(turned), costly)), RULE)
    assert finding.severity == "suggestion"
    assert finding.dynamic[0].samples == 4000
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.85 * 4000 / 16000))
    assert finding.place.location is not None
    assert finding.place.location.line == LINE


def test_an_exchange_that_costs_nothing() -> None:
    """All time goes elsewhere."""
    made = with_code(compiled(turned), lambda each, line: {"selected": 10 if line == STORED else 0})
    finding = only(program(made), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_exchanges_of_one_line_are_one_finding() -> None:
    """Two buffers of a line share its instructions; of lines that cost nothing one is named."""
    (told,) = [each for each in remarks_of(compiled(turned)) if each.op == "buffer f"]
    both = [told, replace(told, op="buffer g")]
    finding = only(program(replace(with_code(compiled(turned), costly), remarks=both)), RULE)
    assert finding.title.startswith("`f` and `g` are")
    assert finding.dynamic[0].samples == 4000
    away = replace(told, op="buffer h", location=Location(FILE, STORED))
    code = [
        ("LDS R4, [R0]", {"selected": 1}, 1, LINE),
        ("LDS R4, [R0]", {"selected": 2}, 1, STORED),
    ]
    code += [("FFMA R4, R4, R4, R4", {"selected": 5000}, 1, 50)]
    assert only(program(Made(remarks=[told, away], code=code)), RULE).place.op == "buffer h"


def test_points_that_run_once() -> None:
    """What one thread found, the others read from shared memory."""
    finding = only(program(Made(remarks=remarks_of(compiled(counted)))), RULE)
    assert finding.severity == "warning"
    assert "one runs the point" in finding.static[0].text
    assert "one thread" in finding.author


def test_kernels_without_an_exchange() -> None:
    """The accesses to shared memory of a product are none."""
    assert not found(program(with_code(compiled(product()), costly)), RULE)
    assert not found(stored("h200-gemm"), RULE)
