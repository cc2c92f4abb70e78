"""Kernels far from their floors that no rule explains are reported, each with what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, only, program
from tests.analyzer.steps import MS, Step
from tileprof.analyzer.report import analyze
from tileprof.analyzer.unexplained import unexplained
from tileprof.profile import Metric, Profile
from tileprof.viewer.findings.account import notes

RATE = 4e12
"""Bytes a second of the memory."""


def kernels(*parts: float, known: bool = True, measured: bool = True) -> Profile:
    """Kernels of 1 ms a step that have to move bytes for these parts of it, and a long wait."""
    step = Step()
    step.builder.declare(Metric("op_bytes", "B"))
    for number, part in enumerate(parts):
        op = step.op(step.frame(step.top, "forward", 10 + number), f"aten::sort{number}")
        step.builder.add(op, "op_bytes", part * MS * 1e-9 * RATE if known else 0)
        step.launch(op, f"sort_kernel_{number}", MS)
    return step.profile({"hbm_copy": RATE} if measured else {})


def test_a_kernel_far_from_its_floor() -> None:
    """A quarter of its time would do: four times, and three eighths of the program's time."""
    finding = only(kernels(0.25, 1.0), "far-from-floor")
    assert finding.severity == "symptom"
    assert finding.title == "sort_kernel_0 takes 4.0 times the least time of its work"
    texts = [each.text for each in finding.evidence]
    assert texts[0] == (
        "20 ms in steps, where moving its bytes at the memory's measured rate takes 5 ms; 37.5 % of"
        " the devices' time has no known cause"
    )
    assert texts[1] == "at most 1.60× for the program"
    assert "--pc-sampling" in finding.author


@pytest.mark.parametrize(
    ("place", "title"),
    [
        ("IMAD.WIDE R6, R2, 0x4, R8", "as long as its tensors read once"),
        ("IMAD.WIDE R6, R3, 0x4, R8", "the least time of its work"),
    ],
)
def test_floor_of_rows_taken_by_number_counts_tensors_once(place: str, title: str) -> None:
    """The second load's address is made of what the first one loaded, or of another register."""
    code = [(text, {"selected": 100}, 0, 5) for text in
            ("LDG.E R2, desc[UR4][R4.64]", place, "LDG.E R0, desc[UR4][R6.64]")]  # fmt: skip
    profile = kernels(0.25, 1.0)
    pc = program(Made("sort_kernel_0", code=code)).tables.pc
    finding = only(replace(profile, tables=replace(profile.tables, pc=pc)), "far-from-floor")
    assert finding.title == f"sort_kernel_0 takes 4.0 times {title}"


@pytest.mark.parametrize("part", [0.7, 1.0])
def test_a_kernel_near_its_floor_is_left_alone(part: float) -> None:
    """Two thirds of its time are what libraries reach."""
    assert not found(kernels(part), "far-from-floor")


def test_no_more_than_three() -> None:
    """The longest ones: the account has all."""
    findings = found(kernels(0.1, 0.2, 0.3, 0.4, 0.5), "far-from-floor")
    assert [each.place.kernel for each in findings] == [f"sort_kernel_{i}" for i in range(3)]


def test_kernels_that_are_told_already() -> None:
    """Of two that are far, the one all of whose nodes another finding has a lead for."""
    report = analyze(kernels(0.25, 0.25, 1.0))
    assert report.account is not None
    first, second = report.account.kernels[:2]
    (left,) = unexplained(report.account, frozenset(first.case.nodes))
    assert left.place.kernel == second.name


@pytest.mark.parametrize(("operations", "told"), [(("aten::sort",), 1), (("aten::sort", "x"), 0)])
def test_kernels_of_an_operation_that_are_far_together(
    operations: tuple[str, ...], told: int
) -> None:
    """Each of four has 1.5 % of the time beyond its floor; one finding where one operation has all
    of them, none where others have half of it and the rest is too little."""
    step = Step()
    step.builder.declare(Metric("op_bytes", "B"))
    for at in range(4 if told else 2):
        for name in operations:
            op = step.op(step.frame(step.top, "forward", 10 + at), name, op_bytes=MS * 1e-9 * RATE)
            step.launch(op, f"{name}_{at}_kernel", 2.5 * MS if told else 2.2 * MS)
    product = step.op(step.top, "aten::mm", bytes=90 * MS * 1e-9 * RATE)
    step.launch(product, "nvjet_hsh", 90 * MS)
    findings = found(step.profile({"hbm_copy": RATE}), "far-from-floor")
    assert [each.title for each in findings] == [
        "4 kernels of aten::sort take 2.5 times the least time of their work"
    ] * told
    assert all("at most 1.06×" in each.evidence[1].text for each in findings)


@pytest.mark.parametrize(
    ("operation", "lead"),
    [
        ("aten::scatter_add_", "torch.segment_reduce"),
        ("IndexSelectBackward0", "torch.segment_reduce"),
        ("aten::index_select", "sorted indices"),
        ("CudnnBatchNormBackward0", "reads its input once for the statistics"),
        ("aten::upsample_nearest2d", "channels_last"),
        ("aten::_embedding_bag", "Rows of a table"),
        ("aten::sort", "Run `tileprof run --pc-sampling"),
    ],
)
def test_what_is_worth_a_trial(operation: str, lead: str) -> None:
    """By the operation that launches the kernel; then the run that would tell more."""
    step = Step()
    step.builder.declare(Metric("op_bytes", "B"))
    op = step.op(step.frame(step.top, "forward", 10), operation, op_bytes=0.2 * MS * 1e-9 * RATE)
    step.launch(op, "some_kernel", MS)
    finding = only(step.profile({"hbm_copy": RATE}), "far-from-floor")
    assert lead in finding.author
    assert "--pc-sampling" in finding.author


def test_kernels_whose_work_is_not_known_are_one_finding() -> None:
    """And say which run counts it."""
    profile = kernels(0.5, 0.5, known=False)
    finding = only(profile, "unknown-work")
    assert finding.title == "the bytes and operations of 2 kernels are unknown"
    assert "--metrics" in finding.author
    assert not found(profile, "far-from-floor")


def test_missing_roofs_are_not_missing_work() -> None:
    """The bytes are known: only the account says what has to be measured."""
    profile = kernels(0.5, measured=False)
    assert not found(profile, "unknown-work")
    known = analyze(profile).account
    both = analyze(kernels(0.5, known=False, measured=False)).account
    assert known is not None
    assert both is not None
    roofs = "100 % has no floor: the device's roofs were not measured (`tileprof doctor --roofs`)."
    assert list(notes(known)) == [roofs.replace("100", "100.0")]
    assert list(notes(both)) == ["100.0 % has no floor: what these kernels move is not known."]
