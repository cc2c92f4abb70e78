"""Hardware counters over time on a real GPU: known rates, on the clock of kernels, which go on.

    python -m pytest -m gpu tests/profiler/gpu/test_gpu_pm_sampling.py

Each test runs a program of a few seconds in a process of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, counts, python, succeeded
from tileprof.profile import CounterSeries, Profile
from tileprof.viewer import ViewOptions, export, render_view

pytestmark = pytest.mark.gpu
PROGRAM = str(PROGRAMS / "over_time.py")
MARGIN = 2_000_000
"""ns at the ends of a stretch that are not looked at."""


def sampled(folder: Path, *options: str, seconds: float = 0.4) -> Ran:
    """Run the program with counters over time, and a timeline."""
    run = ("-m", "tileprof", "run", "--quiet", "--timeline", *options, "-o", "out.tprof", PROGRAM)
    ran = succeeded(python(folder, *run, str(seconds), timeout=120))
    print(ran.output, ran.errors)
    return ran


def only(profile: Profile) -> CounterSeries:
    """The series of the one device, of which nothing was lost."""
    told = profile.tables.provenance
    print({key: fact for key, fact in told.items() if "counter" in key or key == "cupti"})
    assert "counters not sampled" not in told, told["counters not sampled"]
    (series,) = profile.tables.series
    gaps = series.start[1:] - (series.start + series.duration)[:-1]
    print(f"{len(series)} rows; lengths", np.percentile(series.duration, [0, 1, 50, 99, 100]),
          "gaps", np.percentile(gaps, [0, 50, 99, 100]))  # fmt: skip
    assert "missed" not in told["counters over time"]
    assert "full" not in told["counters over time"]
    return series


def stretch(profile: Profile, scope: str) -> tuple[int, int]:
    """From the first kernel of a scope to the last, in ns."""
    (at,) = profile.find(scope, "scope")
    events, timeline = profile.tables.timeline.events, profile.tables.timeline
    of_device = np.array([track.kind == "stream" for track in timeline.tracks])[events.track]
    inside = np.array([at in profile.path(node) for node in range(len(profile))])[events.node]
    chosen = np.flatnonzero(of_device & inside)
    assert len(chosen), f"no kernels in {scope}"
    return int(events.start[chosen].min()), int((events.start + events.duration)[chosen].max())


def means(series: CounterSeries, begin: int, end: int) -> dict[str, float]:
    """Per metric, its mean between two times."""
    kept = (series.start >= begin) & (series.start + series.duration <= end)
    assert kept.sum() > 10, f"{kept.sum()} rows between {begin} and {end}"
    weights = series.duration[kept]
    return {
        metric.name: float(np.average(values[kept], weights=weights))
        for metric, values in zip(series.metrics, series.values)
    }


def test_rates_are_those_of_the_work(tmp_path: Path) -> None:
    """High where a resource bounds, low where it does not, none while nothing runs."""
    ran = sampled(tmp_path, "--pm-sampling")
    profile, told = ran.profile, ran.told
    series = only(profile)
    assert series.device == "cuda:0"
    copies, products = stretch(profile, "copies"), stretch(profile, "products")
    copying = means(series, copies[0] + MARGIN, copies[1] - MARGIN)
    idle = means(series, copies[1] + 10 * MARGIN, copies[1] + 80 * MARGIN)
    computing = means(series, products[0] + MARGIN, products[1] - MARGIN)
    for what, found in (("copies", copying), ("idle", idle), ("products", computing)):
        print(what, {name: f"{value:.4g}" for name, value in found.items()})
    shares = [m.name for m in series.metrics if m.unit == "share"]
    for found in (copying, idle, computing):
        assert all(-0.001 <= found[name] <= 1.02 for name in shares)
    assert copying["dram_use"] > 0.6
    assert copying["dram_use"] > 2 * computing["dram_use"]
    assert computing["tensor_use"] > 0.6
    assert copying["tensor_use"] < 0.01
    assert idle["sm_use"] < 0.02
    assert idle["tensor_use"] < 0.01
    assert min(copying["sm_use"], computing["sm_use"]) > 0.8
    # What a launch moves, by its time; a tenth of the time lies between launches.
    rate = told["bytes"] / (told["copies"]["ms"] * 1e-3)
    assert copying["dram_read"] + copying["dram_write"] == pytest.approx(rate, rel=0.15)


def test_samples_are_on_the_clock_of_kernels(tmp_path: Path) -> None:
    """Tensor cores are seen at work when the first product begins, and no more after the last."""
    ran = sampled(tmp_path, "--pm-sampling=100", "--metrics", "tensor,sm__cycles_active.avg"
                  ".pct_of_peak_sustained_elapsed")  # fmt: skip
    profile = ran.profile
    series = only(profile)
    begin, end = stretch(profile, "products")
    working = np.flatnonzero(series.values[0] > 0.3)
    # The products that warm up come before.
    gaps = np.flatnonzero(np.diff(series.start[working]) > 50 * series.interval)
    print("working", series.start[working[0]] - begin, "gaps", len(gaps))
    last = int((series.start + series.duration)[working[-1]])
    print(f"the last sample at work ends {(last - end) / 1000:.0f} µs after the last kernel")
    assert abs(last - end) < 3 * series.interval
    after = series.start > end + 3 * series.interval
    assert not (series.values[0][after] > 0.02).any()


def test_kernels_are_left_alone(tmp_path: Path) -> None:
    """Each runs once, is recorded, and takes as long as without."""
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    ran = sampled(tmp_path / "with", "--pm-sampling")
    plain = sampled(tmp_path / "without")
    for what in ("copies", "products"):
        told, other = ran.told[what], plain.told[what]
        print(what, told, other)
        assert told["ms"] == pytest.approx(other["ms"], rel=0.1)
        found = counts(ran.profile, scope=what)
        assert max(found.values()) == told["launches"]


@pytest.mark.parametrize(("interval", "seconds"), [(50, 0.3), (1000, 0.6)])
def test_intervals(tmp_path: Path, interval: int, seconds: float) -> None:
    """Rows are as long as was asked for; few metrics can be read often."""
    options = (f"--pm-sampling={interval}", "--metrics", "dram__bytes_read.sum")
    ran = sampled(tmp_path, *options, seconds=seconds)
    told = ran.profile.tables.provenance
    print(told.get("counters over time"), told.get("counters not sampled"))
    (series,) = ran.profile.tables.series
    assert np.median(series.duration) == pytest.approx(interval * 1000, rel=0.02)
    spanned = int((series.start + series.duration)[-1] - series.start[0])
    assert int(series.duration.sum()) > 0.9 * spanned


def test_views(tmp_path: Path) -> None:
    """The kernels of the extreme stretches are named; traces have counters."""
    profile = sampled(tmp_path, "--pm-sampling").profile
    text = render_view(profile, ViewOptions(), "counters", width=120)
    print(text)
    lines = [line for line in text.splitlines() if line.startswith("tensor_use: most")]
    assert lines
    assert "in products" in lines[0]
    document = json.loads(export(profile, "chrome"))
    assert {e["ph"] for e in document["traceEvents"]} >= {"X", "C"}


def test_interruptions_while_threads_launch(tmp_path: Path) -> None:
    """CUPTI and launches do not wait for each other for ever."""
    ran = python(tmp_path, str(PROGRAMS / "over_time_interrupted.py"), timeout=90)
    print(ran.output, ran.errors)
    told = succeeded(ran).told
    assert told["failed"] == ""
    assert told["rows"] > 2000
