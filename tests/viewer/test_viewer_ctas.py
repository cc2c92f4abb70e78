"""Timelines of CTAs for Chrome and Perfetto, and where they lie on the time of the host."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.profile.cta_samples import BEGIN, ctas, on_a_timeline, profile
from tests.viewer.samples import matmul
from tests.viewer.traces import Fields, fields_of, packets
from tileprof.errors import UsageError
from tileprof.profile import CtaTimelines, Profile, Timeline, TimelineEvents, Track
from tileprof.viewer import export
from tileprof.viewer.ctas.axis import Placed, places
from tileprof.viewer.ctas.ctas import Ctas
from tileprof.viewer.ctas.text import render_cta


def _chrome(made: Profile) -> list[dict[str, Any]]:
    document: dict[str, Any] = json.loads(export(made, "chrome"))
    events: list[dict[str, Any]] = document["traceEvents"]
    return [e for e in events if e["pid"] >= 10_000_000]


def test_chrome(golden: Callable[[str], None]) -> None:
    """A process for the launch, a thread a warp, nested visits; flights as asynchronous events."""
    golden("".join(f"{json.dumps(event)}\n" for event in _chrome(profile())))


def _read(trace: bytes) -> tuple[dict[int, tuple[str, int]], list[tuple[int, str, str, str]]]:
    """Tracks with their name and the one above, and what begins and ends on which, as it comes."""
    tracks: dict[int, tuple[str, int]] = {}
    names: dict[tuple[int, int], dict[int, str]] = {}
    found = []

    def text(sequence: int, field: int, number: int) -> str:
        return names[sequence, field][number]

    for packet in packets(trace):
        [sequence] = packet.get(10, [0])
        for content in packet.get(60, ()):
            about = fields_of(content)
            name = about[2][0] if 2 in about else fields_of(about[3][0])[6][0]
            tracks[about[1][0]] = (name.decode(), about.get(5, [0])[0])
        for content in packet.get(12, ()):
            assert packet[13] == [1]
            for field, entries in fields_of(content).items():
                pairs: list[Fields] = [fields_of(entry) for entry in entries]
                names[sequence, field] = {pair[1][0]: pair[2][0].decode() for pair in pairs}
        for content in packet.get(11, ()):
            assert packet[13] == [2]
            event = fields_of(content)
            track = tracks[event[11][0]][0]
            if event[9] == [2]:
                found.append((packet[8][0], track, "end", ""))
                continue
            notes = (fields_of(note) for note in event.get(4, ()))
            told = ", ".join(
                f"{text(sequence, 3, note[1][0])}={text(sequence, 29, note[17][0])}"
                for note in notes
            )
            kind = text(sequence, 1, event[3][0])
            found.append((packet[8][0], track, f"{kind} {text(sequence, 2, event[10][0])}", told))
    return tracks, found


def test_perfetto() -> None:
    """The same, decoded: tracks below the launch's process, what began last ends first."""
    trace = export(profile(), "perfetto")
    assert isinstance(trace, bytes)
    tracks, events = _read(trace)
    (process,) = [uuid for uuid, (_, above) in tracks.items() if not above]
    assert tracks[process][0] == "gemm, launch 3 on cuda:0 (time of its own)"
    assert [name for name, above in tracks.values() if above == process] == [
        "SM 17 CTA 132 ring of a, by warp 4",
        "SM 17 CTA 132 ring of a, by warp 4 (2)",
        "SM 17 CTA 132 wgmma, by warp 0",
        *(f"SM 17 CTA 132 warp {w}" for w in ("4 (producer)", "0 (consumer)", "1 (consumer)")),
        *(f"SM 3 CTA 264 warp {w}" for w in ("4 (producer)", "0 (consumer)", "1 (consumer)")),
    ]
    of = {track: [e for e in events if e[1] == track] for _, track, _, _ in events}
    producer = "SM 17 CTA 132 warp 4 (producer)"
    line = "line=gemm.py:12, path=producer / load a"
    assert [(at, what, told) for at, _, what, told in of[producer]] == [
        (0, "stage producer", "path=producer"),
        (100, "op load a", line),
        (200, "end", ""),
        (300, "op load a", line),
        (400, "end", ""),
        (900, "end", ""),
    ]
    assert of["SM 17 CTA 132 wgmma, by warp 0"][0][2:] == (
        "async gemm",
        "line=gemm.py:14, queue=wgmma, ended=consumer / wait for gemm, by=warp 0 (consumer),"
        " waited=250 ns",
    )
    assert of["SM 3 CTA 264 warp 0 (consumer)"][0][0] == 3000


def test_beside_a_timeline() -> None:
    """Both are there, on one axis: within the kernel on its stream."""
    made = on_a_timeline()
    trace = export(made, "perfetto")
    assert isinstance(trace, bytes)
    tracks, events = _read(trace)
    assert "gemm, launch 3 on cuda:0 (placed within 0.1 µs)" in {n for n, _ in tracks.values()}
    assert {"MainThread", "cuda:0 stream 7"} <= {name for name, _ in tracks.values()}
    first = min(at for at, track, _, _ in events if track.startswith("SM 17"))
    last = max(at for at, track, _, _ in events if track.startswith("SM 3 "))
    assert (first, last) == (100_150, 105_350)
    document = json.loads(export(made, "chrome"))
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert names == [
        "tileprof run gemm.py", "gemm, launch 3 on cuda:0 (placed within 0.1 µs)",
    ]  # fmt: skip


def test_where_a_clock_is_ahead() -> None:
    """By what the kernel on the timeline allows; not by another launch, nor by one too short."""
    assert places(on_a_timeline()) == [Placed(BEGIN - 100_150, 150)]
    # It may be a little shorter than its CTAs, for clocks step.
    assert places(on_a_timeline(duration=5_000)) == [Placed(BEGIN - 99_900, 100)]
    assert places(on_a_timeline(duration=2_000)) == [None]
    # It was issued during the call that launched it; or another one was, before or long after.
    assert places(on_a_timeline(call=89_500)) == [Placed(BEGIN - 100_150, 150)]
    assert places(on_a_timeline(call=88_000)) == [None]
    assert places(on_a_timeline(begin=3_000_000, call=2_000_000)) == [None]
    assert places(profile()) == [None]


def test_which_of_several_kernels_it_is() -> None:
    """Of two that one call launched that within which the CTAs fit."""
    tracks = [Track("thread", "MainThread", 140), Track("stream", "cuda:0 stream 7", 7, 0)]
    events = TimelineEvents.of(
        [80_000, 90_500, 97_000, 100_000], [1_000, 1_000, 2_000, 5_500], [0, 1, 1, 1],
        [0, 0, 1, 1], [-1, -1, 1, 1],
    )  # fmt: skip
    made = profile(timeline=Timeline.holding(tracks, events))
    assert places(made) == [Placed(BEGIN - 100_150, 150)]


def test_kernels_of_a_device_have_one_clock() -> None:
    """Where one allows little, that holds for the others too; a replay is placed by them."""
    held = ctas()
    replay = replace(held.launches[0], number=7, issued=-1)
    elsewhere = replace(replay, device="cuda:1")
    more = [replace(cta, launch=n, begin=cta.begin + 10**6, end=cta.end + 10**6)
            for n in (1, 2) for cta in held.ctas]  # fmt: skip
    made = on_a_timeline()
    launches = [*held.launches, replay, elsewhere]
    both = CtaTimelines(launches, [*held.ctas, *more], held.warps, held.queues)
    placed = places(replace(made, tables=replace(made.tables, ctas=both)))
    assert placed == [Placed(BEGIN - 100_150, 150), Placed(BEGIN - 100_150, 150), None]


def test_what_is_on_no_common_time_is_near_what_is() -> None:
    """Beside a timeline a launch without a place begins where the host launched it."""
    made = on_a_timeline(call=80_000)
    starts = [e["ts"] for e in _chrome(made) if e["ph"] == "X"]
    assert min(starts) == 90.0
    held = made.tables.ctas
    launches = [replace(held.launches[0], issued=-1)]
    gone = CtaTimelines(
        launches, held.ctas, held.warps, held.queues, lambda: (held.visits, held.flights)
    )
    events = _chrome(replace(made, tables=replace(made.tables, ctas=gone)))
    assert min(e["ts"] for e in events if e["ph"] == "X") == 80.0


def test_without_ctas() -> None:
    """Nothing is added; there is nothing to pick."""
    assert _chrome(matmul()) == []
    assert _chrome(profile(CtaTimelines())) == []
    with pytest.raises(UsageError, match="no timelines of CTAs"):
        Ctas(profile(CtaTimelines())).pick()
    assert Timeline() == profile().tables.timeline


def test_a_cta_is_picked_by_kernel_and_number() -> None:
    """The median, where no number is given."""
    made = Ctas(profile())
    assert (made.pick(), made.pick("gemm"), made.pick("ge.m", 264)) == (0, 0, 1)
    assert (made.chosen(0), made.chosen(1)) == ("the median and first of 8", "the longest of 8")
    with pytest.raises(
        UsageError, match="CTA 5 of gemm, launch 3 on cuda:0 was not kept"
    ) as caught:
        made.pick("gemm", 5)
    assert "132 (median, first), 264 (longest)" in str(caught.value)
    with pytest.raises(UsageError, match="no timeline of a kernel `first`"):
        made.pick("first")
    with pytest.raises(UsageError, match="not a regular expression"):
        made.pick("(")


def test_the_innermost_site() -> None:
    """Between visits of what is inside a site, the site itself; after its end nothing."""
    made = Ctas(profile())
    assert list(made.innermost(0)) == [
        (0, 100, 0), (100, 200, 1), (200, 300, 0), (300, 400, 1), (400, 900, 0),
    ]  # fmt: skip
    assert list(made.innermost(2)) == [
        (0, 20, 2), (20, 420, 3), (420, 460, 4), (460, 700, 2), (700, 1000, 3), (1000, 1100, 2),
    ]  # fmt: skip


def test_a_cta_without_warps_is_drawn() -> None:
    """As a damaged file may have one, or a recording that ended early."""
    held = ctas()
    made = profile(CtaTimelines(held.launches, held.ctas))
    assert "gemm" in render_cta(made, None, None, None, width=80, color=False, unicode=True)
