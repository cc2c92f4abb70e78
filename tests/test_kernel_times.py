"""Every view of a profile reports the same time for a kernel: tree, report, JSON, page."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.strategies_profile import profiles_of_kernels
from tests.viewer.samples import matmul
from tileprof.analyzer import analyze
from tileprof.analyzer.json_form import to_json
from tileprof.profile import Metric, Profile, TreeBuilder, load, prune
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.findings import VOICES, ReportOptions, render_reports
from tileprof.viewer.html.page import report_data

STORED = sorted((Path(__file__).parent / "data").glob("*.tprof"))


def in_view(profile: Profile) -> dict[str, float]:
    """Time by kernel name as `view --flat --json` has it."""
    nodes = json.loads(render_view(profile, ViewOptions(mode="flat"), "json"))["nodes"]
    found: dict[str, float] = defaultdict(float)
    for each in nodes:
        if each["kind"] == "kernel" and "time" in each["metrics"]:
            found[each["name"]] += each["metrics"]["time"]["total"]
    return {name: time for name, time in found.items() if time}


def summed(names: list[str], times: list[float | None]) -> dict[str, float]:
    """Time by kernel name; one name may stand for several kernels."""
    found: dict[str, float] = defaultdict(float)
    for name, time in zip(names, times):
        found[name] += time or 0
    return {name: time for name, time in found.items() if time}


def in_report(profile: Profile) -> dict[str, float]:
    """Time by kernel name as the report's own objects have it."""
    cases = analyze(profile).program.kernels
    return summed([case.name for case in cases], [case.time for case in cases])


def in_page(profile: Profile) -> dict[str, float]:
    """Time by kernel name as the table of kernels on the page has it."""
    kernels = report_data(analyze(profile))["kernels"]
    return summed(kernels.get("name", []), kernels.get("time", []))


def in_json(profile: Profile) -> dict[str, float]:
    """Time by kernel name as `report --json` has it; kernels below 1 % of the time are left out."""
    kernels = to_json(analyze(profile))["kernels"]
    return summed([each["name"] for each in kernels], [each["time"] for each in kernels])


def agree(profile: Profile) -> None:
    """Fail where two of them differ."""
    expected = in_view(profile)
    assert in_report(profile) == pytest.approx(expected)
    assert in_page(profile) == pytest.approx(expected, rel=1e-6)
    told = in_json(profile)
    assert told == pytest.approx({name: expected[name] for name in told})


def sited() -> Profile:
    """A kernel of 100 µs, of which 90 µs are at two places inside it, one inside the other."""
    builder = TreeBuilder()
    main = builder.child(-1, "frame", "main")
    kernel = builder.child(main, "kernel", "matmul")
    outer = builder.child(kernel, "site", "load")
    inner = builder.child(outer, "line", "k.py:3")
    for node, time, count in ((kernel, 10_000, 11), (outer, 30_000, 70), (inner, 60_000, 0)):
        builder.add(node, "time", time)
        builder.add(node, "count", count)
    return builder.snapshot()


@pytest.mark.spread("h200-gemm")
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_recordings_have_one_time_for_each_kernel(path: Path) -> None:
    """View, report, JSON and page of a recording agree."""
    agree(load(path))


def test_a_kernel_takes_the_time_of_its_scopes_too() -> None:
    """The whole of 100 µs is reported, by 11 launches, in text and on the page."""
    profile = sited()
    agree(profile)
    (case,) = analyze(profile).program.kernels
    assert (case.time, case.launches) == (100_000, 11)
    for voice in VOICES:
        text = render_reports({"made": analyze(profile)}, ReportOptions(voice))
        assert "1 kernel, 100 µs" in text
    text = " ".join(render_reports({"made": analyze(profile)}, ReportOptions()).split())
    assert "Devices' time in steps, 100 µs: 100.0 % ████████████ unexplained" in text
    page = report_data(analyze(profile))
    assert page["header"]["kernel_time"] == page["header"]["device_time"] == 100_000
    assert page["account"]["time"] == 100_000
    assert page["account"]["kernels"]["time"] == page["kernels"]["time"] == [100_000]
    assert page["kernels"]["launches"] == [11]


def test_what_was_folded_into_a_kernel_is_its_time() -> None:
    """A tree that was pruned keeps the kernel's time in every view."""
    agree(prune(sited(), "time", 0.5))
    agree(matmul())


def test_a_kernel_launched_once_does_not_repeat_because_its_scopes_do() -> None:
    """Visits of places inside a kernel are no launches: one launch is not steady work."""
    from tileprof.analyzer.program.steady import Steps

    builder = TreeBuilder()
    builder.declare(Metric("idle_time", "ns"))
    kernel = builder.child(-1, "kernel", "once")
    builder.add(kernel, "count", 1)
    site = builder.child(kernel, "site", "load")
    builder.add(site, "time", 1_000)
    builder.add(site, "count", 500)
    assert not Steps(builder.snapshot()).repeats


@settings(max_examples=20)
@given(profiles_of_kernels())
def test_drawn_profiles_have_one_time_for_each_kernel(profile: Profile) -> None:
    """Whatever hangs where, and whatever was folded."""
    agree(profile)
