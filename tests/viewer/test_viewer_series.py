"""Hardware counters over time: drawn, told with what ran meanwhile, as data, in traces."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from tests.viewer.traces import fields_of, packets
from tileprof.errors import UsageError
from tileprof.figures import counters_over_time
from tileprof.profile import (
    CounterSeries,
    Profile,
    SeriesMetric,
    Tables,
    Timeline,
    TimelineEvents,
    Track,
    TreeBuilder,
)
from tileprof.viewer import ViewOptions, export, render_view
from tileprof.viewer.series import SeriesView, series_views

NS = 200_000
ROWS = 1000
BEGIN = 10**9


def profile(timeline: bool = True, gap: bool = False) -> Profile:
    """A device that copies for a while, rests, and computes: 200 ms in all."""
    builder = TreeBuilder()
    scope = builder.child(-1, "scope", "forward")
    copy, gemm = (builder.child(scope, "kernel", name) for name in ("copy", "gemm"))
    builder.add(copy, "count", 1)
    start = BEGIN + np.arange(ROWS) * NS
    values = np.zeros((3, ROWS), np.float32)
    values[0, 100:400], values[0, 500:900] = 0.9, 0.2
    values[1, 500:900] = 0.95
    values[2] = values[0] * 4e12
    metrics = (
        SeriesMetric("dram_use", "share"),
        SeriesMetric("tensor_use", "share"),
        SeriesMetric("dram_read", "bytes/s"),
    )
    kept = np.ones(ROWS, bool)
    kept[420:480] = not gap
    series = CounterSeries.of(
        "cuda:0", NS, start[kept], np.full(kept.sum(), NS), metrics, values[:, kept]
    )
    events = TimelineEvents.of(
        [start[100], start[500], start[0]], [300 * NS, 400 * NS, ROWS * NS], [copy, gemm, gemm],
        [0, 0, 1], [-1, -1, -1],
    )  # fmt: skip
    tracks = (Track("stream", "stream 7", 7, 0), Track("stream", "other device", 7, 1))
    held = Timeline.holding(tracks, events) if timeline else Timeline()
    return builder.snapshot(Tables(series=(series,), timeline=held))


def view(*names: str, width: int = 80, unicode: bool = True, timeline: bool = True) -> list[str]:
    """The lines of a view."""
    options = ViewOptions(metrics=names)
    text = render_view(profile(timeline), options, "counters", width=width, unicode=unicode)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_a_row_for_each_metric() -> None:
    """With its mean, least and most, drawn over time; then its extremes with what ran."""
    assert view("tensor_use", "dram_read") == [
        "cuda:0  200 ms, every 200 µs",
        "",
        "     mean  least       most  over time",
        "   38.0 %      0     95.0 %                     ▄███████████████▁     tensor_use",
        "1.40 TB/s      0  3.60 TB/s     ▁███████████▅   ▁▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▁     dram_read",
        "",
        "tensor_use: most 95.0 % (4.00 ms from 100 ms on): gemm 100% in forward",
        "tensor_use: least 0 (4.00 ms from 20.0 ms on): copy 100% in forward",
        "dram_read: most 3.60 TB/s (4.00 ms from 20.0 ms on): copy 100% in forward",
        "dram_read: least 800 GB/s (4.00 ms from 100 ms on): gemm 100% in forward",
    ]


def test_plain_characters() -> None:
    """In ASCII all is ASCII, and narrow where it has to be."""
    lines = view("dram_use", width=44, unicode=False)
    assert lines[0] == "cuda:0  200 ms, every 200 us"
    assert all(line.isascii() for line in lines)
    assert lines[3].endswith("dram_use")


def test_what_was_lost_is_told() -> None:
    """Below, in lines that fit."""
    held = profile()
    lost = "memory on GH100, every 200 µs; 1,000 samples; 12 missed; the buffer was full once"
    facts = {"counters over time": lost, "counters not sampled": "CUPTI did not return"}
    told = dataclasses.replace(held, tables=dataclasses.replace(held.tables, provenance=facts))
    lines = render_view(told, ViewOptions(), "counters", width=60).splitlines()
    assert " ".join(lines[-3:]).replace("\xa0", " ") == f"{lost} CUPTI did not return"
    assert max(map(len, lines)) <= 60


def test_without_a_timeline() -> None:
    """Nothing is known of what ran, so the lowest is that of all time."""
    lines = view("dram_use", timeline=False)
    assert lines[-2:] == [
        "dram_use: most 90.0 % (4.00 ms from 20.0 ms on)",
        "dram_use: least 0 (4.00 ms from 0 on)",
    ]


def test_what_is_not_there() -> None:
    """A profile without, and a metric that was not sampled."""
    with pytest.raises(UsageError, match="no hardware counters over time"):
        render_view(TreeBuilder().snapshot(), ViewOptions(), "counters")
    with pytest.raises(UsageError) as caught:
        view("sm_use")
    assert "It has dram_use, tensor_use, dram_read." in str(caught.value)


@pytest.mark.parametrize("parts", [1, 3, 50, 999, 1000, 1777])
def test_means_of_parts(parts: int) -> None:
    """However the time is cut, the mean of all parts is that of the series."""
    (held,) = series_views(profile())
    assert held.means(0, parts).mean() == pytest.approx(held.series.mean(0), rel=1e-5)


def test_gaps_have_no_mean() -> None:
    """Where nothing was sampled there is no value; rows are not spread over gaps."""
    held = SeriesView(profile(), profile(gap=True).tables.series[0])
    means = held.means(0, 100)
    assert np.isnan(means[43:47]).all()
    assert np.isfinite(means[[40, 49]]).all()


def test_data() -> None:
    """All rows, null for what has no value, and the extremes."""
    text = render_view(profile(), ViewOptions(metrics=("tensor_use",)), "counters-json")
    (series,) = json.loads(text)["series"]
    assert (series["device"], series["interval"], len(series["start"])) == ("cuda:0", NS, ROWS)
    (metric,) = series["metrics"]
    assert (metric["name"], metric["unit"]) == ("tensor_use", "share")
    assert metric["mean"] == pytest.approx(0.38)
    assert metric["values"][500] == pytest.approx(0.95)
    assert metric["highest"]["ran"] == [{"name": "gemm", "scope": "forward", "share": 1.0}]
    assert metric["lowest"]["ran"][0]["name"] == "copy"


def test_chrome_has_counters() -> None:
    """In a process of their own, at the times of the timeline; 0 where nothing was sampled."""
    document: dict[str, Any] = json.loads(export(profile(gap=True), "chrome"))
    counters = [each for each in document["traceEvents"] if each["ph"] == "C"]
    assert {each["name"] for each in counters} == {
        "dram_use (share)", "tensor_use (share)", "dram_read (bytes/s)",
    }  # fmt: skip
    tensor = [each for each in counters if each["name"].startswith("tensor")]
    assert len(tensor) == ROWS - 60 + 2
    assert tensor[0]["ts"] == BEGIN / 1000
    assert [e["args"]["value"] for e in tensor if e["ts"] == (BEGIN + 420 * NS) / 1000] == [0]
    assert tensor[-1]["args"]["value"] == 0
    assert tensor[-1]["ts"] == (BEGIN + ROWS * NS) / 1000


def test_chrome_without_a_timeline_has_them_too() -> None:
    """Beside the tree, which has no time."""
    document = json.loads(export(profile(timeline=False), "chrome"))
    assert sum(each["ph"] == "C" for each in document["traceEvents"]) == 3 * (ROWS + 1)


@pytest.mark.parametrize("timeline", [True, False])
def test_perfetto_has_counter_tracks(timeline: bool) -> None:
    """Each with its unit, in a process of the device."""
    content = export(profile(timeline), "perfetto")
    assert isinstance(content, bytes)
    tracks: dict[int, str] = {}
    values: dict[str, list[tuple[int, float]]] = {}
    for packet in packets(content):
        for about in map(fields_of, packet.get(60, ())):
            if 8 in about:
                unit = fields_of(about[8][0])[6][0].decode()
                tracks[about[1][0]] = f"{about[2][0].decode()} {unit}"
        for event in map(fields_of, packet.get(11, ())):
            if event[9] == [4]:
                value = np.array([event[44][0]], np.uint64).view(np.float64)[0]
                values.setdefault(tracks[event[11][0]], []).append((packet[8][0], float(value)))
    assert set(values) == {"dram_use share", "tensor_use share", "dram_read bytes/s"}
    told = values["tensor_use share"]
    assert len(told) == ROWS + 1
    assert told[500][0] == BEGIN + 500 * NS
    assert told[500][1] == pytest.approx(0.95)


def test_a_figure() -> None:
    """A curve for each counter, with gaps where nothing was sampled; refusals say what there is."""
    figure = counters_over_time(profile(gap=True), ("tensor_use", "dram_use"))
    tensor, dram = figure.data
    assert (tensor.name, dram.name) == ("tensor_use", "dram_use")
    assert max(value for value in dram.y if value is not None) == pytest.approx(0.9)
    assert None in dram.y
    assert tensor.x[0] == 0
    assert tensor.x[-1] == pytest.approx(200, rel=0.01)
    assert len(counters_over_time(profile(), device="cuda:0").data) == 3
    with pytest.raises(UsageError, match="There are those of cuda:0"):
        counters_over_time(profile(), device="cuda:1")
