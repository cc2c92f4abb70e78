"""Arithmetic that takes longer than it has to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, only, program, remark, report_of, stored
from tileprof.remarks.launches import Persistent

RULE = "slow-math"
_Code = list[tuple[str, Mapping[str, int], int, int]]
PRODUCT = (
    "kernel @f(%A: global<8, 8, bfloat16>) {\n"
    "  %a = alloc shared {shape = [8, 8]} : shared<8, 8, bfloat16>\n"
    "  gemm %a, %a, %c\n}\n"
)
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
    """One finding: 2,500 of 10,000 samples at line 5, and 1,000 that wait for its results."""
    finding = only(program(Made(code=DOUBLES, blames=RESULTS)), RULE)
    assert finding.title == "arithmetic of doubles, on values that are floats"
    assert finding.dynamic[0].samples == 3500
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * 0.35))
    place = finding.place.location
    assert place is not None
    assert place.line == 5


def test_doubles_that_stay_as_floats() -> None:
    """Of 400 turns of doubles as many stay as numbers were turned into them and back, 300; so do
    200 of floats in that line."""
    turns = {"F2F.F64.F32": 150, "DMUL": 200, "DADD": 200, "F2F.F32.F64": 150, "FMUL": 200}
    code: _Code = [(f"{name} R4, R4, R6", {"selected": n}, 1, 5) for name, n in turns.items()]
    rest: _Code = [("FFMA R2, R0, R3, R4", {"selected": 9100}, 1, 9)]
    finding = only(program(Made(code=code + rest)), RULE)
    assert finding.dynamic[0].samples == 900 - 300 - 200


def test_barriers_that_slow_arithmetic_makes_late() -> None:
    """A fifth of the samples are powers, so of 2,000 waits for other warps 400 are theirs; of as
    many that are for products none."""
    power: _Code = [("FFMA R42, R33, R44, 0.0013391353422775864601", {"selected": 2000}, 1, 5)]
    after: _Code = [
        ("BAR.SYNC 0x0", {"barrier": 2000}, 1, 6),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24", {}, 1, 6),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", {"barrier": 2000}, 1, 7),
        ("FADD R2, R0, R3", {"selected": 4000}, 1, 9),
    ]
    finding = only(program(Made(code=power + after, blames=[(3, "barrier", 2)])), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * (0.2 + 0.2 * 0.2)))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("FFMA R42, R33, R44, 0.0013391353422775864601", "powers in full precision"),
        ("FMUL R2, R3, 0.63661974668502807617", "sines or cosines in full precision"),
        ("FFMA R2, R3, R4, -0.052303962409496307373", "hyperbolic tangents in full precision"),
        ("FFMA R2, R3, R4, 0.11284004896879196167", "error functions in full precision"),
        ("ISETP.GT.U32.AND P0, PT, R0, 0x727fffff, PT", "square roots in full precision"),
        ("FFMA R2, R3, R4, -0.16845393180847167969", "logarithms in full precision"),
    ],
)
def test_functions_of_a_library(text: str, title: str) -> None:
    """Its line's arithmetic is all of it; what loads there, and waits for it, is not."""
    code: _Code = [
        ("LDG.E R3, desc[UR6][R2.64]", {"lg_throttle": 1000}, 1, 5),
        (text, {"selected": 500, "long_scoreboard": 1000}, 1, 5),
        ("FSETP.GT.AND P1, PT, R20, RZ, PT", {"selected": 500, "wait": 500}, 1, 5),
        ("@!P3 BRA 0x60", {"branch_resolving": 500}, 1, 5),
        REST,
    ]
    finding = only(program(Made(code=code)), RULE)
    assert (finding.title, finding.dynamic[0].samples) == (title, 2000)
    assert finding.kernel_gain is not None
    part = 0.8 if "roots" in title else 0.95
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - part * 0.2))


def test_a_function_that_the_kernel_calls() -> None:
    """Its constants are in registers; the source names it, in line 5."""
    code: _Code = [("FSEL R27, R17, R4, P6", {"selected": 2000}, 1, 5), REST]
    held = program(Made(code=code))
    source = "#line 4\n  y[0] = tp_exp2(x[0]);\n  z[0] = tp_erf(y[0]);\n#line 6\n  w = 1.0f;\n"
    infos = tuple(replace(each, code=source) for each in held.tables.kernels)
    finding = only(replace(held, tables=replace(held.tables, kernels=infos)), RULE)
    assert finding.title == "error functions in full precision"
    assert finding.dynamic[0].samples == 2000


@pytest.mark.parametrize(
    "text",
    ["FFMA R2, R3, R4, -0.16845393180847167969", "ISETP.GT.U32.AND P0, PT, R0, 0x727fffff, PT"],
)
@pytest.mark.parametrize(("ir", "severity"), [("", "suggestion"), (PRODUCT, "symptom")])
def test_a_function_without_a_faster_form_in_tile_kernels(
    ir: str, severity: str, text: str
) -> None:
    """Nobody can write the approximate logarithm, or root, there, so no gain is stated."""
    code: _Code = [(text, {"selected": 2000}, 1, 5), REST]
    finding = only(program(Made(code=code, ir=ir)), RULE)
    assert (finding.severity, finding.kernel_gain is None) == (severity, severity == "symptom")


def test_a_line_with_one_instruction_of_many() -> None:
    """The rest of that line is not slow."""
    code: _Code = [DOUBLES[0], *([("FADD R9, R8, R9", {"selected": 100}, 1, 5)] * 40), REST]
    finding = only(program(Made(code=code)), RULE)
    assert finding.dynamic[0].samples == 1000


@pytest.mark.parametrize(("flops", "severity"), [(6e10, "ignore"), (3e10, "suggestion")])
def test_beside_products_and_exponentials(flops: float, severity: str) -> None:
    """Tensor cores take 0.6 of the time, or 0.3; special functions 8 cycles for each of 600 of
    10,000 samples."""
    code: _Code = [
        ("MUFU.EX2 R0, R1", {"selected": 600}, 1, 7),
        ("FFMA R42, R33, R44, 0.0013391353422775864601", {"selected": 400}, 1, 5),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0",
         {"wait": 9000, "wait_not_issued": 9000}, 1, 6),
    ]  # fmt: skip
    made = Made(code=code, ir=PRODUCT, metrics={"flops": flops})
    finding = only(program(made, peaks={"tensor_bfloat16": 1e14}), RULE)
    assert finding.severity == severity


@pytest.mark.parametrize(("bytes_", "severity"), [(9e8, "ignore"), (5e8, "suggestion")])
def test_beside_memory_that_gives_all_it_can(bytes_: float, severity: str) -> None:
    """It takes 0.9 of the time, or 0.5, and the slow line 0.05 of the samples."""
    code: _Code = [
        ("LDG.E.128 R4, desc[UR6][R2.64]", {"long_scoreboard": 9500}, 1, 4),
        ("FFMA R42, R33, R44, 0.0013391353422775864601", {"selected": 500}, 1, 5),
    ]
    made = Made(code=code, metrics={"bytes": bytes_})
    finding = only(program(made, peaks={"hbm_copy": 1e12}), RULE)
    assert finding.severity == severity


def test_special_functions_beside_memory_that_gives_all_it_can() -> None:
    """A symptom only where they are what takes the time."""
    code: _Code = [("MUFU.EX2 R0, R1", {"selected": 4000}, 1, 7), REST]
    assert found(program(Made(code=code)), RULE)
    full = Made(code=code, metrics={"bytes": 9e8})
    assert not found(program(full, peaks={"hbm_copy": 1e12}), RULE)


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
    assert finding.title == "integer division by a divisor that is not constant"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.9 * 0.2))
    cold: _Code = [(t, {r: n // 200 for r, n in s.items()}, d, at) for t, s, d, at in DIVISION[:3]]
    assert list(titles(Made(code=[*cold, DIVISION[3]])).values()) == ["ignore"]
    few: _Code = [(t, {r: n // 6 for r, n in s.items()}, 0, at) for t, s, _, at in DIVISION[:3]]
    assert not titles(Made(code=[*few, DIVISION[3]]))  # which tile a block has
    told = [remark("launch", 5, Persistent())]
    assert not titles(Made(code=[*cold, DIVISION[3]], remarks=told))
    bare: _Code = [(text, {}, depth, line) for text, _, depth, line in DIVISION]
    assert list(titles(Made(code=bare, counts={"executions": [1] * 4})).values()) == ["warning"]


@pytest.mark.parametrize(
    ("waits", "busy", "said"), [(3000, 1000, False), (1000, 1000, True), (3000, 9000, True)]
)
def test_a_division_while_loads_are_under_way(waits: int, busy: int, said: bool) -> None:
    """A block that waits for its loads longer than it divides has them no sooner without it, as
    long as schedulers have issue slots left."""
    code: _Code = [
        ("LDG.E R0, desc[UR4][R8.64]", {"selected": 100}, 0, 5),
        *((text, {**held, "mio_throttle_not_issued": n}, 0, 6)
          for text, held, _, _ in DIVISION[:3] for n in held.values()),
        ("FADD R7, R0, R0", {"long_scoreboard": waits, "long_scoreboard_not_issued": waits}, 0, 7),
        ("EXIT", {"selected": busy}, 0, 9),
    ]  # fmt: skip
    made = Made(code=code, blames=[(4, "long_scoreboard", 0)])
    assert any("division" in title for title in titles(made)) == said


def test_a_divisor_that_stays_the_same() -> None:
    """Its reciprocal is made once; what each element does with it is the division."""
    code: _Code = [
        *((text, {}, 0, 2) for text, *_ in DIVISION[:3]),
        ("IMAD.HI.U32 R5, R5, R2, RZ", {"selected": 1000}, 1, 5),
        ("ISETP.GE.U32.AND P0, PT, R6, R9, PT", {"selected": 1000}, 1, 5),
        ("IMAD.HI.U32 R8, R8, 0x55555556, RZ", {"selected": 1000}, 1, 6),
        REST,
    ]
    finding = only(program(Made(code=code)), RULE)
    assert finding.dynamic[0].samples == 2000
    assert finding.place.location is not None
    assert finding.place.location.line == 5


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
    assert titles(Made(code=exact)) == {"exponentials in full precision": "suggestion"}
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


def test_a_reciprocal_of_floats_is_no_division_of_whole_numbers() -> None:
    """Of its register another float made a reciprocal before."""
    sigmoid = ("MUFU.RCP R29, R4", {"mio_throttle": 5000}, 1, 7)
    findings = found(program(Made(code=[*DIVISION[:3], sigmoid, DIVISION[3]])), RULE)
    (division,) = [each for each in findings if "division" in each.title]
    assert division.dynamic[0].samples == 2000


def test_what_finds_a_tile_beside_its_division() -> None:
    """All else in the line of the launch is no part of it."""
    rest = ("IMAD R9, R9, R9, RZ", {"selected": 3000}, 1, 5)
    code: _Code = [*DIVISION[:3], rest, DIVISION[3]]
    assert only(program(Made(code=code)), RULE).dynamic[0].samples == 5000
    told = [remark("launch", 5, Persistent())]
    assert only(program(Made(code=code, remarks=told)), RULE).dynamic[0].samples == 2000


@pytest.mark.parametrize(("loads", "said"), [(2, False), (1, True)])
def test_conversions_of_what_memory_holds_are_needed(loads: int, said: bool) -> None:
    """32 bytes are converted once each by 32 conversions; of 16 bytes as many are too many."""
    code: _Code = [
        *(("LDG.E.128 R4, desc[UR6][R2.64]", {"selected": 10}, 1, 5) for _ in range(loads)),
        *(("I2F.S8 R8, R4", {"mio_throttle": 100, "selected": 10}, 1, 6) for _ in range(32)),
        ("@P0 BRA 0x0", {"selected": 5000}, 1, 7),
    ]
    assert bool(found(program(Made(code=code)), RULE)) == said


def test_what_waits_elsewhere_is_not_slow_arithmetic() -> None:
    """A tenth of the samples in a kernel that could be twice as fast: a tenth goes."""
    power: _Code = [
        ("FFMA R42, R33, R44, 0.0013391353422775864601", {"selected": 1000}, 1, 5),
        ("FADD R2, R0, R3", {"selected": 1000, "long_scoreboard": 8000}, 1, 9),
    ]
    made = Made(code=power, metrics={"bytes": 500_000})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.95 * 0.1))


@pytest.mark.parametrize(
    ("called", "expected"), [("div_rn_noftz_f32_slowpath", 3000), ("sqrt_rn_f32_slowpath", 1000)]
)
def test_division_in_full_precision(called: str, expected: int) -> None:
    """Its check, its corrections, and the subroutine that its calls name; not one of another
    function."""
    code: _Code = [
        ("FCHK P0, R1, R2", {"selected": 200}, 0, 5),
        ("FFMA R3, R4, R5, R6", {"selected": 600}, 0, 5),
        (f"CALL.REL.NOINC $__internal_0_$__cuda_sm3x_{called}", {"selected": 100}, 0, 5),
        ("BSYNC B0", {"selected": 100}, 0, 5),
        ("EXIT", {"selected": 7000}, 0, 6),
        ("SHF.R.U32.HI R7, RZ, 0x17, R2", {"wait": 1500}, 0, 6),
        ("RET.REL.NODEC R8", {"wait": 500}, 0, 6),
    ]
    finding = only(program(Made(code=code)), RULE)
    assert finding.title == "divisions in full precision"
    assert finding.dynamic[0].samples == expected
