"""What becomes of drafts: gains, order, all changes together, runs that would tell more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.analyzer.made import Made, found, highest, only, program, report_of, stored
from tileprof.analyzer import analyze, report
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving

SPILLS = [
    ("LDL R0, [R1+0x50]", {"lg_throttle": 4000}, 1, 5),
    ("FFMA R2, R0, R3, R4", {"selected": 6000}, 1, 6),
]


def test_the_greatest_gain_of_the_program_is_first() -> None:
    """Not that of the kernel."""
    twice = [(t, {r: 2 * n for r, n in s.items()}, d, line) for t, s, d, line in SPILLS]
    short = Made("short", 1e5, code=twice)
    long = Made("long", 9e5, code=SPILLS)
    report = analyze(program(short, long))
    assert [each.place.kernel for each in report.findings if each.rule == "spill-hot"] == [
        "long", "short",
    ]  # fmt: skip
    assert [each.case.name for each in report.kernels] == ["long", "short"]


def test_work_that_nothing_needs_comes_before_other_work_of_the_same_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a roof caps two gains alike, the first says what to leave out, however rules stand."""

    def draft(case: KernelCase) -> Iterator[Draft]:
        saving = Saving(0.1, 0.2, 0.3)
        yield Draft("suggestion", "title", case.place(), (), "advice", saving=saving)

    names = ("bank-conflict", "redundant-work", "occupancy-limited")
    monkeypatch.setattr(report, "KERNEL_RULES", [KernelRule(name, draft) for name in names])
    monkeypatch.setattr(report, "PROGRAM_RULES", ())
    said = [each.rule for each in analyze(program(Made(code=SPILLS))).findings]
    assert said[:3] == ["redundant-work", "bank-conflict", "occupancy-limited"]


def test_a_kernel_is_a_part_of_its_program() -> None:
    """Of the device's time, idle time included, it has a half."""
    finding = only(program(Made(code=SPILLS), idle=1e6), "spill-hot")
    kernel, whole = finding.kernel_gain, finding.program_gain
    assert kernel is not None
    assert whole is not None
    assert whole.mid == pytest.approx(1 / (1 - 0.5 * (1 - 1 / kernel.mid)))


def test_a_highest_gain_ends_at_a_roof() -> None:
    """4,000 of 10,000 samples, which count as 1,000, go at most with the error of counting. Bytes
    that take 0.52 of the time at their roof stay, whatever kernels gained that no rule was made on,
    and so they do of a program that waits as long again."""
    error = 2 * (0.4 * 0.6 / 1000) ** 0.5
    (answers,) = analyze(program(Made(code=SPILLS))).kernels
    (finding,) = [each for each in answers.findings if each.rule == "spill-hot"]
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(highest(1 / (1 - 0.4 - error)))
    made = Made(code=SPILLS, metrics={"bytes": 5.2e8})
    finding = only(program(made, peaks={"hbm_copy": 1e12}, idle=1e6), "spill-hot")
    assert finding.kernel_gain is not None
    assert finding.program_gain is not None
    assert finding.kernel_gain.high == pytest.approx(1 / 0.52)
    assert finding.program_gain.high == pytest.approx(2 / 1.52)


def test_changes_together_take_a_sample_once() -> None:
    """Two rules that want the same samples bring no more than one of them."""
    both = [
        ("LDL R0, [R1+0x50]", {"lg_throttle": 2000}, 1, 5),
        ("LDS R0, [R1]", {"mio_throttle": 2000}, 1, 6),
        ("FFMA R2, R0, R3, R4", {"selected": 6000}, 1, 7),
    ]
    passes = {"shared_wavefronts": [0, 80, 0], "shared_wavefronts_ideal": [0, 10, 0]}
    (answers,) = analyze(program(Made(code=both, counts=passes))).kernels
    assert answers.together is not None
    taken = 0.95 * 0.2 + 7 / 9 * 0.2
    assert answers.together.mid == pytest.approx(1 / (1 - taken))
    error = 2 * (taken * (1 - taken) / 1000) ** 0.5
    assert answers.together.high == pytest.approx(highest(1 / (1 - taken - error)))
    made = Made(code=both, counts=passes, metrics={"bytes": 5.2e8})
    (answers,) = analyze(program(made, peaks={"hbm_copy": 1e12})).kernels
    assert answers.together is not None
    assert answers.together.high == pytest.approx(1 / 0.52)


def test_kernels_that_take_no_time_are_left_out() -> None:
    """A two-hundredth of all kernels' time."""
    report = analyze(program(Made("long", 1e6), Made("short", 5e3, code=SPILLS)))
    assert not [each for each in report.findings if each.place.kernel == "short"]


def test_noise_is_no_gain() -> None:
    """One percent."""
    little = [
        ("LDL R0, [R1]", {"lg_throttle": 150}, 1, 5),
        ("FFMA R2, R0, R3, R4", {"selected": 9850}, 1, 6),
    ]
    assert not found(program(Made(code=little)), "spill-hot")


def test_kinds_of_evidence() -> None:
    """Those that are there, and runs that add the others."""
    report = report_of("h200-gemm")
    assert report.tiers == ("static", "activities", "samples")
    assert [tier for tier, _, _ in report.runs] == ["scopes", "counters"]
    warned = analyze(program(Made(code=[(t, {}, d, line) for t, _, d, line in SPILLS],
                                  counts={"executions": [9, 9]})))  # fmt: skip
    (rules,) = (rules for tier, _, rules in warned.runs if tier == "samples")
    assert "spill-hot" in rules
    of_cpu = analyze(program(Made(device="cpu")))
    assert [tier for tier, _, _ in of_cpu.runs] == ["scopes", "samples"]
    assert "on a GPU" in of_cpu.runs[-1][1]


def test_a_kernel_and_its_function() -> None:
    """A tile kernel's function has a number behind its name; a kernel's launches are one case."""
    (case,) = Program(stored("h200-gemm")).kernels
    assert case.sampled is not None
    assert (case.name, case.sampled.function.name) == ("matmul_nt", "matmul_nt_0")
    assert case.launches == 150
    assert case.roofs.matrix_dtype == "bfloat16"
    assert case.sampled.whole == 626_717
    names = {case.name: case.sampled for case in Program(stored("h200-stalls")).kernels}
    assert len(names) == 16
    assert all(code is not None and code.function.title == name for name, code in names.items())


def test_roofs() -> None:
    """A tensor is moved once at least, however often blocks ask for it; what may stay in the L2 is
    held to that; a floor above the time that was measured is none."""
    header = "kernel @kernel(%A: global<16384, 16384, float32>) {\n}"
    peaks = {"hbm_copy": 4e12, "l2_read": 8e12}
    asked = Made(ir=header, metrics={"bytes": 1e12})
    (case,) = Program(program(asked, peaks=peaks)).kernels
    assert case.roofs.needed_bytes == 16384 * 16384 * 4
    assert case.roofs.floors == {"hbm_copy": pytest.approx(case.roofs.needed_bytes / 4e3)}
    assert case.roofs.most_gain == pytest.approx(1e6 / (case.roofs.needed_bytes / 4e3))
    (small,) = Program(program(Made(metrics={"bytes": 4e6}), peaks=peaks)).kernels
    assert small.roofs.floors == {"l2_read": pytest.approx(500)}
    (wrong,) = Program(program(Made(metrics={"bytes": 1e12}), peaks=peaks)).kernels
    assert (wrong.roofs.floors, wrong.roofs.most_gain) == ({}, float("inf"))
