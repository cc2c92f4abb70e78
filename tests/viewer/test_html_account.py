"""The account above a page's findings: its data adds up, and says what the text report says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.analyzer.made import Made, program, report_of
from tests.analyzer.steps import MS, Step, training
from tests.viewer.html_reports import below_roofs, report
from tests.viewer.samples import profile_of
from tileprof.analyzer import Report, analyze
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.findings.account import gains
from tileprof.viewer.html.page import report_data

MADE = [
    pytest.param(lambda: analyze(training().profile()), id="a training"),
    pytest.param(lambda: report_of("h200-gemm"), id="h200-gemm"),
    pytest.param(lambda: report_of("h200-stalls"), id="h200-stalls"),
    pytest.param(below_roofs, id="below roofs"),
]


def account_on(made: Report) -> dict[str, Any]:
    """The account among a page's data."""
    held = report_data(made)["account"]
    assert isinstance(held, dict)
    return held


@pytest.mark.parametrize("make", MADE)
def test_parts_causes_and_kernels_add_up(make: Any) -> None:
    """Parts are the whole time, causes their part, and each kernel's parts its time."""
    held = account_on(make())
    parts = {kind: time for kind, _, _, time in held["parts"]}
    assert list(parts) == [
        "floor", "causes", "shortfalls", "unexplained", "copies", "communication", "waiting",
    ]  # fmt: skip
    assert held["time"] > 0
    assert sum(parts.values()) == pytest.approx(held["time"])
    assert sum(time for time, _ in held["causes"]) == pytest.approx(parts["causes"])
    columns = held["kernels"]
    names = ("time", "floor", "named", "shortfalls", "unexplained")
    for time, floor, *rest in zip(*(columns[each] for each in names)):
        assert (floor or 0) + sum(rest) == pytest.approx(time)
    assert sum(floor or 0 for floor in columns["floor"]) == pytest.approx(parts["floor"])
    assert sum(columns["unexplained"]) == pytest.approx(parts["unexplained"])
    assert columns["time"] == sorted(columns["time"], reverse=True)


@pytest.mark.parametrize("make", MADE)
def test_causes_lead_to_their_findings_and_rows_to_their_kernels(make: Any) -> None:
    """By numbers that are places in the other lists of the page."""
    made = make()
    page = report_data(made)
    held = made.account
    assert held is not None
    titles = [page["findings"][place]["title"] for _, place in page["account"]["causes"]]
    assert titles == [each.title for each in held.causes]
    names = [page["kernels"]["name"][place] for place in page["account"]["kernels"]["kernel"]]
    assert names == [each.name for each in held.kernels]


def test_numbers_of_two_kernels() -> None:
    """Products of 400 GFLOP at 800 TFLOP/s, and 1.2 GB at 4 TB/s, beside what they took."""
    held = account_on(below_roofs())
    assert held["time"] == 1_500_000
    assert held["kernels"] == {
        "kernel": [0, 1], "time": [1_000_000, 500_000], "floor": [500_000, 300_000],
        "named": [0, 0], "shortfalls": [0, 0], "unexplained": [500_000, 200_000],
        "limit": ["arithmetic", "memory"],
    }  # fmt: skip
    assert held["headline"] == ["By its floors the program could be 1.9× as fast at most."]
    assert held["idle"] == held["causes"] == held["notes"] == []


def test_a_floor_that_is_not_known_is_no_number() -> None:
    """The kernel's time is unexplained, and a note says what is missing."""
    held = account_on(analyze(program(Made("own_kernel"))))
    assert held["kernels"]["floor"] == [None]
    assert held["kernels"]["limit"] == [""]
    assert held["notes"][0].startswith("100.0 % has no floor")


def test_idle_time_is_listed_by_reason() -> None:
    """The longest first."""
    assert account_on(analyze(training().profile()))["idle"] == [
        ["waiting for its launch", 3 * MS],
        ["between dependent work", 0.8 * MS],
        ["waiting for its launch after a host's copy", 0.8 * MS],
    ]


@pytest.mark.parametrize("make", MADE)
def test_the_page_says_what_the_text_report_says(make: Any) -> None:
    """Each sentence of the page, and each part with its share, is in the text."""
    made = make()
    held = account_on(made)
    text = re.sub(r"\s+", " ", render_reports({"x.tprof": made}, ReportOptions(), width=100))
    for sentence in held["headline"] + held["notes"]:
        assert sentence in text
    for _, name, _, time in held["parts"]:
        if time > 0.005 * held["time"]:
            assert re.search(rf"{100 * time / held['time']:.1f} % \S* ?{name}", text)


def test_the_most_is_not_said_where_it_rests_on_what_is_not_known() -> None:
    """A floor of half a unit, beside kernels without one that take a little less, or more."""
    for time, said in ((0.4 * MS, True), (0.6 * MS, False)):
        step = Step()
        product = step.op(step.top, "aten::mm", flops=0.5 * MS * 1e-9 * 60e12, bytes=1.0)
        step.launch(product, "ampere_sgemm_128x64_nn", MS)
        step.launch(step.top, "own_kernel", time)
        held = analyze(step.profile({"fma_float32": 60e12})).account
        assert held is not None
        assert (held.floor, held.unknown) == pytest.approx((0.5 * MS, time))
        assert any("at most" in each for each in gains(held)) is said


def test_without_a_timed_device_there_is_no_account() -> None:
    """As in a program of the host alone, and in one of which nothing was recorded."""
    step = Step()
    step.op(step.top, "aten::mm", cpu_time=9 * MS)
    assert report_data(analyze(step.profile()))["account"] is None
    assert report_data(report(profile_of()))["account"] is None
