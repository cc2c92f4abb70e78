"""Arithmetic that takes longer than it has to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.analyzer.made import Made, found, only, program, report_of, stored

RULE = "slow-math"
_Code = list[tuple[str, Mapping[str, int], int, int]]
REST = ("FFMA R2, R0, R3, R4", {"selected": 6000}, 1, 9)
DOUBLES: _Code = [
    ("F2F.F64.F32 R4, R3", {"mio_throttle": 1000, "long_scoreboard": 500}, 1, 5),
    ("DMUL R4, R4, R6", {"short_scoreboard": 600, "math_pipe_throttle": 400}, 1, 5),
    ("F2F.F32.F64 R8, R4", {"wait": 500}, 1, 5),
    ("FADD R9, R8, R9", {"short_scoreboard": 1000}, 1, 6),
    REST,
]
RESULTS = [
    (0, "long_scoreboard", 4), (1, "short_scoreboard", 0), (2, "wait", 1),
    (3, "short_scoreboard", 2),
]  # fmt: skip


def titles(made: Made) -> dict[str, str]:
    """Of what is found in a kernel, by title, the severity."""
    return {each.title: each.severity for each in found(program(made), RULE)}


def test_a_literal_that_makes_doubles_of_floats() -> None:
    """All of 2,600 of 10,000 samples for conversions, half of 900 for arithmetic."""
    findings = found(program(Made(code=DOUBLES, blames=RESULTS)), RULE)
    gains = {each.title: each.kernel_gain.mid for each in findings if each.kernel_gain}
    assert gains == {
        "floats are turned into doubles": pytest.approx(1 / (1 - 0.26)),
        "arithmetic of doubles, on values that are floats": pytest.approx(1 / (1 - 0.5 * 0.09)),
    }
    place = findings[0].place.location
    assert place is not None
    assert place.line == 5


def test_doubles_that_were_wanted() -> None:
    """Nothing is made of floats."""
    assert not titles(Made(code=[("DFMA R4, R4, R6, R8", {"selected": 4000}, 1, 5), REST]))


def test_a_conversion_waits_for_its_operand() -> None:
    """Samples of the load before it are not its own; nor is any stored kernel's time."""
    code = [
        ("LDG.E R2, desc[UR6][R2.64]", {"wait": 100}, 1, 4),
        ("F2I.U32.TRUNC.NTZ R7, R2", {"long_scoreboard": 9000, "selected": 50}, 1, 5),
        REST,
    ]
    assert not titles(Made(code=code, blames=[(1, "long_scoreboard", 0)]))
    busy = [code[0], ("F2I.U32.TRUNC.NTZ R7, R2", {"mio_throttle": 4000}, 1, 5), REST]
    finding = only(program(Made(code=busy)), RULE)
    assert (finding.severity, finding.confidence) == ("suggestion", "low")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 * 4000 / 10100))


DIVISION: _Code = [
    ("I2F.U32.RP R4, R3", {"mio_throttle": 500}, 1, 5),
    ("MUFU.RCP R4, R4", {"mio_throttle": 500}, 1, 5),
    ("F2I.FTZ.U32.TRUNC.NTZ R5, R4", {"mio_throttle": 1000}, 1, 5),
    ("EXIT", {"selected": 8000}, 0, 9),
]


def test_a_division_of_whole_numbers() -> None:
    """A finding of its own, and no conversion."""
    finding = only(program(Made(code=DIVISION)), RULE)
    assert finding.title == "a division of whole numbers that are not constant"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.9 * 0.2))
    cold: _Code = [(t, {r: n // 200 for r, n in s.items()}, d, at) for t, s, d, at in DIVISION[:3]]
    assert list(titles(Made(code=[*cold, DIVISION[3]])).values()) == ["ignore"]
    bare: _Code = [(text, {}, depth, line) for text, _, depth, line in DIVISION]
    assert list(titles(Made(code=bare, counts={"executions": [1] * 4})).values()) == ["warning"]


@pytest.mark.parametrize(("samples", "severity"), [(3000, "suggestion"), (10, "ignore")])
def test_a_slow_path(samples: int, severity: str) -> None:
    """Behind the kernel's end, where it is called."""
    code: _Code = [
        ("@P0 CALL.REL.NOINC 0x30", {}, 1, 5), REST, ("EXIT", {}, 0, 9),
        ("FADD R4, R4, R5", {"wait": samples}, 0, 5), ("RET.REL.NODEC R6 0x0", {}, 0, 5),
    ]  # fmt: skip
    finding = only(program(Made(code=code)), RULE)
    assert (finding.title.startswith("a slow path"), finding.severity) == (True, severity)


def test_exponentials() -> None:
    """A product before each; all digits; neither."""
    power = ("MUFU.EX2 R5, R4", {"selected": 100}, 1, 6)
    scaled: _Code = [("FMUL R4, R4, 1.4426950216293334961", {"selected": 900}, 1, 5), power, REST]
    assert titles(Made(code=scaled)) == {
        "a product by log2(e) before each exponential": "suggestion"
    }
    text = "FFMA R4, R4, 1.925963033500011079e-08, R5"
    exact: _Code = [(text, {"selected": 900}, 1, 5), power, REST]
    assert titles(Made(code=exact)) == {"exponentials with all digits": "suggestion"}
    merged = ("FFMA R4, R4, 1.4426950216293334961, -R7", {"selected": 900}, 1, 5)
    assert not titles(Made(code=[merged, power, REST]))


def test_on_a_gpu() -> None:
    """Exponentials are that kernel's work: seen, with no number. In others there is nothing."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    assert [(each.place.kernel, each.severity) for each in findings] == [
        ("exponentials", "symptom")
    ]
    assert findings[0].confidence == "low"
    assert findings[0].kernel_gain is None
    place = findings[0].place.location
    assert place is not None
    assert place.line == 77
    assert not found(stored("h200-gemm"), RULE)
