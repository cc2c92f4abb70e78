"""Warps that wait for instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, highest, only, program, stored

RULE = "icache-unroll"
LOGIC = "LOP3.LUT R0, R0, R1, RZ, 0x3c, !PT"
_Code = list[tuple[str, Mapping[str, int], int, int]]


def looped(
    length: int, late: int = 0, at: int = 50, idle: int = 0, work: int = 10_000, inside: int = 1
) -> _Code:
    """A loop of so many instructions; warps wait for one of them `late` times."""
    code: _Code = [("FFMA R0, R0, R1, R2", {}, inside, 5) for _ in range(length - 1)]
    code.append(("@P0 BRA 0x0", {"selected": work - late} if work else {}, inside, 3))
    if late:
        code[at] = (
            code[at][0],
            {"no_instructions": late, "no_instructions_not_issued": idle},
            1,
            6,
        )
    return code


def test_a_loop_longer_than_the_cache() -> None:
    """2,000 of 10,000 samples, at 1,000 of which nobody issued; of 5,000 others neither."""
    code = looped(1000, 2000, idle=1000)
    code[60] = (code[60][0], {"wait_not_issued": 5000}, 1, 6)
    finding = only(program(Made(code=code)), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.1))
    assert finding.place.sass == (0, 16 * 999)
    assert "15.6 KB" in finding.static[0].text


@pytest.mark.parametrize(("text", "least"), [("FFMA R0, R0, R1, R2", 1.0), (LOGIC, 0.5)])
def test_no_faster_than_the_pipes(text: str, least: float) -> None:
    """Schedulers issue in 0.4 of the cycles: they can in 0.98 of all, or of every second one."""
    late = looped(1000, 8000, idle=6000)
    code = [*((text, *each[1:]) for each in late[:-1]), late[-1]]
    finding = only(program(Made(code=code)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.98 * least / 0.4, rel=0.01)
    assert finding.kernel_gain.high == pytest.approx(highest(least / 0.4), rel=0.01)
    assert finding.kernel_gain.low < finding.kernel_gain.mid


IR = """\
kernel @f(%X: global<64, float32>) {
  launch [%c1] {threads = [256]} body(%bx: index) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c64 = constant 64 : index
    for unroll %c0, %c64, %c1 body(%turn: index) {
    }
  }
}
"""
SOURCE = """\
#line 3
    #pragma unroll
    for (int turn = 0; turn < 64; ++turn) {
#line 6
      x[0] = x[1];
    }
#line 9
"""


def test_the_line_that_unrolls_it() -> None:
    """Line 3, whose body is line 6."""
    held = program(Made(code=looped(1000, 2000, idle=1500), ir=IR))
    infos = tuple(replace(each, code=SOURCE) for each in held.tables.kernels)
    finding = only(replace(held, tables=replace(held.tables, kernels=infos)), RULE)
    assert "line 3 unrolls 64 iterations" in finding.static[0].text
    assert finding.place.location is not None
    assert finding.place.location.line == 3


def test_code_without_a_loop() -> None:
    """Longer than the caches behind, it is fetched by each block; shorter, it is told no cause."""
    code = [*looped(9000, 2000, idle=1500, inside=0)[:-1], ("EXIT", {"selected": 8000}, 0, 3)]
    assert only(program(Made(code=code)), RULE).severity == "suggestion"
    assert only(program(Made(code=[*code[:1000], code[-1]])), RULE).severity == "symptom"


def test_a_short_loop_is_not_too_long() -> None:
    """What is late there is late for another reason, which is not known."""
    finding = only(program(Made(code=looped(100, 2000, idle=1500))), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    assert not found(program(Made(code=looped(100, 500, idle=500))), RULE)


@pytest.mark.parametrize("at", [0, 1])
def test_the_price_of_a_jump(at: int) -> None:
    """Its target, and the one behind it, come late in every loop."""
    assert not found(program(Made(code=looped(1000, 2000, at=at, idle=1500))), RULE)


@pytest.mark.sweep
def test_a_very_long_loop() -> None:
    """A warning by its length alone; harmless where its instructions are there in time."""
    code = looped(9000, work=0)
    finding = only(program(Made(code=code, counts={"executions": [1] * 9000})), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert only(program(Made(code=looped(9000))), RULE).severity == "ignore"


def test_on_a_gpu() -> None:
    """No stored kernel has such a loop, though some wait behind each jump for 4 % of their time."""
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)
