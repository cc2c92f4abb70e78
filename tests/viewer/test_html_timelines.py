"""The timelines on the page of a report: their data, what is left out of it, what it weighs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analyzer.made import stored
from tests.profile.cta_samples import ctas, profile
from tests.viewer.html_reports import HOSTILE, finding, large, report, small
from tests.viewer.samples import profile_of
from tests.viewer.timelines_made import all_kinds, crowded, damaged
from tests.viewer.traces import MAIN, STEP, STREAM, traced
from tileprof.profile import CtaTimelines, KernelInfo, Profile, Track
from tileprof.viewer.ctas.ctas import Ctas
from tileprof.viewer.html import report_page
from tileprof.viewer.html.bars import Bars, bars_of
from tileprof.viewer.html.page import events_of, report_data

Told = list[tuple[str, str, int, int]]


def timelines(made: Profile) -> dict[str, Any]:
    """What the page has, as a browser reads it."""
    held: dict[str, Any] = json.loads(json.dumps(report_data(report(made))["timelines"]))
    return held


def spread(held: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    """Row, begin, end and what of each bar, as the page's script reads its columns."""
    found, bars = [], iter(zip(held["gap"], held["length"], held["what"], strict=True))
    for row, count in enumerate(held["counts"]):
        now = 0
        for _ in range(count):
            gap, length, what = next(bars)
            found.append((row, now + gap, now + gap + length, what))
            now += gap + length
    assert next(bars, None) is None
    return found


# -- which parts there are


@pytest.mark.parametrize("name", ["h200-stalls", "h200-gemm"])
def test_a_recording_without_timelines_has_none(name: str) -> None:
    """Nor has an empty profile."""
    assert timelines(stored(name)) == {}
    assert timelines(profile_of()) == {}
    assert timelines(traced()) == {}
    assert report_data(small())["timelines"] == {}


def test_parts_are_those_that_were_recorded() -> None:
    """Each without the others, too."""
    made = all_kinds()
    assert list(timelines(made)) == ["cta", "counters", "program"]
    alone = replace(made, tables=replace(made.tables, series=(), ctas=CtaTimelines()))
    assert list(timelines(alone)) == ["program"]
    assert list(timelines(profile())) == ["cta"]


def test_a_damaged_part_says_so() -> None:
    """The others are there: counters need no events."""
    held = timelines(damaged())
    assert held["cta"] == {"damaged": "the CTAs are damaged </script><b>"}
    assert held["program"] == {"damaged": "the events are damaged </script><b>"}
    assert len(held["counters"]["series"][0]["metrics"]) == 2
    assert report_page(report(damaged())).count("<b>") == 0


# -- the warps of a CTA


def test_bars_of_a_cta_are_those_of_its_warps() -> None:
    """Each innermost site when it was, in rows; flights above, with what waited for them."""
    held = timelines(profile())["cta"]
    (kernel,), (first, second) = held["kernels"], held["ctas"]
    names = [site["name"] for site in kernel["sites"]]
    assert first["name"] == "SM 17 CTA 132, the median and first of 8"
    assert (first["median"], second["median"], first["whole"], second["whole"]) == (
        True, False, 1100, 2200,
    )  # fmt: skip
    assert first["rows"] == [
        ["ring of a, by warp 4", True, []], ["", True, []], ["wgmma, by warp 0", True, []],
        ["warp 4 (producer)", False, []], ["warp 0 (consumer)", False, []],
        ["warp 1 (consumer)", False, []],
    ]  # fmt: skip
    told = [(row, begin, end, names[what]) for row, begin, end, what in spread(first)]
    assert told[:3] == [(0, 100, 400, "load a"), (1, 300, 900, "load a"), (2, 400, 700, "gemm")]
    known = Ctas(profile())
    innermost = [
        (3 + at, begin, end, known.site(0, site).name)
        for at, warp in enumerate(known.warps(0))
        for begin, end, site in known.innermost(warp)
    ]
    assert told[3:] == innermost
    assert [(bar, names[site], row, ns) for bar, site, row, ns in first["flights"]] == [
        (0, "wait for a", 4, 300), (1, "wait for a", 4, 200), (2, "wait for gemm", 4, 250),
    ]  # fmt: skip
    assert sum(ns for _, ns in first["times"]) == sum(e - b for _, b, e, _ in told[3:])


def test_sites_have_colours_and_lines() -> None:
    """Waits are warm, work is cold, stages grey; a line leads to its file where the page has it."""
    gemm = profile()
    kernels = tuple(replace(k, source="a\n" * 20) for k in gemm.tables.kernels)
    held = timelines(replace(gemm, tables=replace(gemm.tables, kernels=kernels)))["cta"]
    (kernel,) = held["kernels"]
    assert {site["name"]: site["color"] for site in kernel["sites"]} == {
        "producer": "around", "consumer": "around", "load a": "work-0", "gemm": "work-1",
        "wait for a": "wait-0", "wait for gemm": "wait-1",
    }  # fmt: skip
    places = {site["name"]: site["at"] for site in kernel["sites"]}
    assert places["gemm"][:2] == ["/w/gemm.py", 14]
    assert places["consumer"] is None
    assert kernel["sites"][0]["path"] == "producer / load a"


def test_what_was_lost_of_a_warp_is_told() -> None:
    """After its last record, or before its first one."""
    made = ctas()
    ended = replace(made.warps[0], missing="end", end=700)
    begun = replace(made.warps[2], missing="begin")
    warps = (ended, made.warps[1], begun, *made.warps[3:])
    held = CtaTimelines(
        made.launches, made.ctas, warps, made.queues, lambda: (made.visits, made.flights)
    )
    rows = timelines(profile(held))["cta"]["ctas"][0]["rows"]
    assert rows[3] == ["warp 4 (producer)", False, [[700, 1100]]]
    assert rows[5] == ["warp 1 (consumer)", False, [[0, 0]]]


# -- hardware counters


def test_curves_are_means_of_the_series() -> None:
    """Nothing where nothing was sampled; times on the axis of the program's events."""
    held = timelines(all_kinds())
    (told,) = held["counters"]["series"]
    assert held["counters"]["notes"] == ["memory on GH100, every 50 ns"]
    first = 90_500  # of the events, which begin earlier
    assert (told["begin"], told["whole"], held["program"]["begin"]) == (96_000 - first, 10_000, 0)
    assert (told["rows"], told["points"]) == (150, 150)
    use, read = told["metrics"]
    assert (use["name"], use["unit"], read["name"]) == ("dram_use", "share", "dram_read")
    values = use["values"]
    assert values.count(None) == pytest.approx(150 / 4, abs=2)
    assert set(values) == {0, None, 0.8}
    assert (use["most"], use["least"], use["mean"]) == (0.8, 0, pytest.approx(0.5333, abs=1e-4))
    begin, end, mean, ran = use["highest"]
    assert told["begin"] <= begin < end <= told["begin"] + told["whole"]
    assert mean == 0.8
    assert ran == "gemm 100%"


# -- the program


def test_events_have_rows_by_how_deep_they_nest() -> None:
    """Threads first; a kernel knows the call that launched it, a node the call tree."""
    made = traced(*STEP)
    held = timelines(made)["program"]
    nodes = [made.names[node] for node in held["nodes"]]
    assert [name for name, _, _ in held["rows"]] == ["MainThread", "", "", "cuda:0 stream 7"]
    assert [(row, b, e, nodes[what]) for row, b, e, what in spread(held)] == [
        (0, 0, 8000, "step"), (1, 0, 4000, "aten::mm"),
        (2, 1000, 2000, "cuLaunchKernel"), (2, 2000, 2000, "cuLaunchKernel"),
        (3, 3001, 7500, 'gemm<"ß">'), (3, 7500, 7600, 'gemm<"ß">'),
    ]  # fmt: skip
    assert held["launches"] == [[4, 2], [5, 3]]
    assert (held["nodes"], held["others"]) == ([0, 1, 2, 3], {})


def test_rows_with_less_time_are_left_out() -> None:
    """Of a program with more threads than a page has rows, and it says of how many."""
    tracks = [Track("thread", f"T{n}", n) for n in range(130)]
    events = [("task", 0, 1000 + n, track, None) for n, track in enumerate(tracks)]
    held = timelines(traced(*events, ("gemm", 0, 9000, STREAM, None)))["program"]
    assert (len(held["rows"]), held["left"]) == (100, 31)
    assert held["rows"][0][0] == "T31"
    assert held["rows"][-1][0] == "cuda:0 stream 7"


def test_events_of_a_tree_that_was_cut_lead_to_what_is_left() -> None:
    """They keep their names; their node is one above them."""
    moved = np.array([0, 1, 1, 1, -1, -1])
    held = events_of(traced(*STEP, ("task", 9_000, 9_500, MAIN, None)), 1000, moved)
    assert held["nodes"] == [0, 1, 1, 1, -1]
    assert held["others"] == {
        "2": ["api", "cuLaunchKernel"], "3": ["kernel", 'gemm<"ß">'], "4": ["scope", "task"],
    }  # fmt: skip


# -- so many bars at most


spans = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 90), st.integers(0, 90), st.integers(0, 3)),
    max_size=120,
)


def _rows(drawn: list[tuple[int, int, int, int]]) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Spans from gaps and lengths, one after the other in their rows."""
    now, found = dict[int, int](), list[tuple[int, int, int, int]]()
    for row, gap, length, what in drawn:
        begin = now.get(row, 0) + gap
        now[row] = begin + length
        found.append((row, begin, begin + length, what))
    return [np.array(column, np.int64) for column in zip(*found)] or [np.zeros(0, np.int64)] * 4


@given(spans, st.integers(1, 60))
def test_bars_stand_for_all_spans(drawn: list[tuple[int, int, int, int]], most: int) -> None:
    """None is lost or counted twice, bars are few, and what is joined lies within its bar."""
    row, begin, end, what = _rows(drawn)
    bars = bars_of(row, begin, end, what, most)
    rows = len(set(row.tolist()))
    assert bars.count.sum() == len(row)
    assert bars.busy.sum() == (end - begin).sum()
    assert len(bars.row) <= (len(row) if len(row) <= most else most + 2 * rows)
    assert (bars.busy <= bars.end - bars.begin).all()
    single = bars.source >= 0
    assert (single == (bars.count == 1)).all()
    for mine, of in ((bars.begin, begin), (bars.end, end), (bars.row, row), (bars.what, what)):
        assert (mine[single] == of[bars.source[single]]).all()
    for one in set(row.tolist()):
        ours = bars.row == one
        assert (bars.begin[ours][1:] >= bars.end[ours][:-1]).all()
        assert bars.begin[ours][0] == begin[row == one].min()
        assert bars.end[ours][-1] == end[row == one].max()
    assert spread(bars.columns(5)) == list(
        zip(*(c.tolist() for c in (bars.row, bars.begin, bars.end, bars.what)))
    )


def test_the_longest_are_told_one_by_one() -> None:
    """Short ones between them are joined, under the name of what takes most of their time."""
    length = np.full(300, 10)
    length[[50, 200]] = 1000
    what = np.where(np.arange(300) % 3, 7, 2)
    what[[50, 200]] = 4
    begin = np.cumsum(length + 5) - length
    bars = bars_of(np.zeros(300), begin, begin + length, what, 12)
    assert sorted(bars.source[bars.what == 4].tolist()) == [50, 200]
    assert len(bars.row) <= 14
    joined = bars.count > 1
    assert set(bars.what[joined].tolist()) == {7}
    assert (bars.busy[joined] == 10 * bars.count[joined]).all()


def test_rows_with_few_bars_keep_theirs() -> None:
    """One row of thousands does not take the room of a stream with three kernels."""
    row = np.append(np.zeros(5000, np.int64), [1, 1, 1])
    begin = np.append(np.arange(5000) * 10, [0, 100, 200])
    bars: Bars = bars_of(row, begin, begin + 9, np.zeros(5003), 90)
    assert bars.source[bars.row == 1].tolist() == [5000, 5001, 5002]


# -- what a page weighs


def test_a_crowded_profile_is_cut() -> None:
    """To 4,000 bars a CTA, 30,000 of all, the medians first; curves to points; events to bars."""
    held = timelines(crowded(profile()))
    ours = held["cta"]["ctas"]
    bars = [len(cta["gap"]) for cta in ours]
    assert max(bars) <= 4000 + 2 * max(len(cta["rows"]) for cta in ours)
    assert 26_000 < sum(bars) <= 30_000
    assert held["cta"]["left"] == 24 - len(ours) > 0
    assert sum(cta["median"] for cta in ours) == min(12, len(ours))
    assert all(cta["spans"] == 8 * 700 + 700 and cta["many"] for cta in ours)
    (series,) = held["counters"]["series"]
    assert (series["rows"], series["points"]) == (9000, 1000)
    assert all(len(metric["values"]) == 1000 for metric in series["metrics"])
    program = held["program"]
    assert len(program["gap"]) <= 16_000 + 2 * len(program["rows"])
    assert program["spans"] <= 150_000
    assert program["left"] > 0


@pytest.mark.sweep
def test_no_timeline_makes_a_page_too_heavy() -> None:
    """With three times as much of everything else: 6 MB at most."""
    made = crowded(large(60_000, 120, 500).program.profile)
    sources = {**made.tables.sources, "/code/other.cu": "int i;\n" * 400_000}
    code = KernelInfo("k", "cuda:0", code="a = b;\n" * 400_000, code_language="cuda")
    kernels = (*made.tables.kernels, code)
    nodes = {made.find(kind="kernel")[0]: len(kernels) - 1}
    tables = replace(made.tables, sources=sources, kernels=kernels, node_kernels=nodes)
    page = report_page(report(replace(made, tables=tables), finding()))
    print(f"{len(page.encode()):,} bytes")
    assert 4_500_000 < len(page.encode()) <= 6_000_000


def test_no_name_breaks_out_of_a_timeline() -> None:
    """Sites, tracks and counters are texts too."""
    made = all_kinds()
    kernels = tuple(
        replace(k, name=HOSTILE, sites=tuple(replace(s, name=HOSTILE) for s in k.sites))
        for k in made.tables.kernels
    )
    tables = replace(made.tables, kernels=kernels)
    page = report_page(report(replace(made, tables=tables)))
    assert page.count("</script") == report_page(report(all_kinds())).count("</script")
    assert page.encode()
