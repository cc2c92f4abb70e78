"""Hardware counters over time in profiles, on a played CUPTI: asked for, planned, kept, written."""

from __future__ import annotations

import ctypes as C
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof.profiler as profiler
from tests.native.cupti_programs import Fake
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profile import CounterSeries, Profile, SeriesMetric, load, merge
from tileprof.profiler.counters import host, series_control
from tileprof.profiler.counters.series_control import make_series_plan
from tileprof.profiler.counters.series_requests import (
    SERIES_SETS,
    USUAL_SETS,
    SeriesAsked,
    parse_pm_sampling,
)
from tileprof.profiler.cupti import cupti_library
from tileprof.profiler.cupti.refusals import REFUSALS

CONTEXT = 0x1000
NS = 200_000


# -- what is asked for


def asked(interval: object = True, metrics: Any = None) -> SeriesAsked:
    """What is asked for, where something is."""
    found = parse_pm_sampling(interval, metrics)
    assert found is not None
    return found


def test_intervals() -> None:
    """In µs; all usual sets where none is named."""
    assert asked() == asked("") == SeriesAsked(NS, USUAL_SETS)
    assert asked("50").interval == 50_000
    assert asked(1000).interval == 1_000_000
    assert asked(62.5).interval == 62_500
    assert parse_pm_sampling(None) is parse_pm_sampling(False, "memory") is None


@pytest.mark.parametrize("given", ["19", 0, -5, "x", 1e9, "nan", "inf", [], object()])
def test_what_is_no_interval(given: Any) -> None:
    """It is refused, with the limits."""
    with pytest.raises(UsageError) as caught:
        parse_pm_sampling(given)
    assert "from 20 to 1,000,000" in str(caught.value)


@pytest.mark.parametrize("given", ["", "a,,b", "dram bytes", [], 5])
def test_what_is_no_name(given: Any) -> None:
    """It is refused, with the sets."""
    with pytest.raises(UsageError) as caught:
        parse_pm_sampling(True, given)
    assert "memory, tensor, occupancy, links" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "unit", "counted", "factor"),
    [
        ("dram__bytes_read.sum", "bytes/s", True, 1.0),
        ("sm__inst_executed.avg", "1/s", True, 1.0),
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "share", False, 0.01),
        ("lts__t_sector_hit_rate.pct", "share", False, 0.01),
        ("dram__bytes_read.sum.per_second", "1/s", False, 1.0),
        ("sm__inst_executed.avg.per_cycle_active", "1", False, 1.0),
    ],
)
def test_what_a_metric_of_cupti_becomes(name: str, unit: str, counted: bool, factor: float) -> None:
    """A count becomes a rate, a percentage a share, anything else stays."""
    (series,) = asked(True, name).series
    assert (series.metric, series.term) == (SeriesMetric(name, unit), name)
    assert (series.counted, series.factor) == (counted, factor)


def test_each_metric_is_sampled_once() -> None:
    """Also where two names want it."""
    found = asked(True, "memory, dram__bytes_read.sum, tensor")
    assert len(found.terms) == len(set(found.terms)) == 5
    assert found.of_term("dram__bytes_read.sum") == "memory"


@pytest.fixture
def library() -> Any:
    """CUPTI itself, where it is installed."""
    found = cupti_library.find_cupti()
    if found is None:
        pytest.skip("needs CUPTI")
    try:
        return host.open_library(found.path)
    except MissingDependencyError:
        pytest.skip("needs a CUPTI that counts launches")


def test_cupti_itself_samples_all_sets_at_once(library: Any) -> None:
    """Those of Hopper are in one plan; what is too much is told, with what to leave out."""
    plan = make_series_plan(asked(True, list(SERIES_SETS)), chip="GH100")
    assert (plan.chip, bool(plan.image)) == ("GH100", True)
    with pytest.raises(UsageError) as caught:
        make_series_plan(asked(True, "memory,occupancy,l1tex__t_sectors"), chip="GH100")
    assert "GH100 cannot count memory, occupancy, l1tex__t_sectors at once" in str(caught.value)
    assert "Leave out occupancy or l1tex__t_sectors." in str(caught.value)
    with pytest.raises(UsageError) as caught:
        make_series_plan(asked(True, "memory,sm__throughput.avg.pct_of_peak_sustained_elapsed"),
                         chip="GH100")  # fmt: skip
    assert "Leave out sm__throughput" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        make_series_plan(asked(True, "dram__bytes_raed.sum"), chip="GH100")
    assert "no metric `dram__bytes_raed.sum` that can be sampled over time" in str(caught.value)
    assert "dram__bytes_read" in str(caught.value)


# -- on a played CUPTI


class Gpu:
    """The played library, whose device counts what a test says."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.c = fake, fake.c
        for name in ("misuses", "devices", "samples"):
            getattr(self.c, f"fake_pm_{name}").restype = C.c_uint64
        self.c.fake_metric.argtypes = (C.c_char_p, C.c_int)
        self.c.fake_counters_reset()
        self.c.fake_pms_reset()
        self.c.fake_current(C.c_uint64(CONTEXT))
        for each in SERIES_SETS.values():
            for series in each:
                self.c.fake_metric(series.term.encode(), 1)
        self.c.fake_metric(b"slow__cycles.sum", 2)

    def launch(self) -> None:
        """Launch something that has run when the recording ends: nothing has to be waited for."""
        now = time.perf_counter_ns()
        self.fake.kernel("kernel", start=now, end=now + 1000)

    def until_read(self, count: int) -> None:
        """Wait until so many samples were read, which goes on beside the program."""
        ends = time.monotonic() + 60
        while self.fake.recorder.pm_status()["samples"] < count:
            assert time.monotonic() < ends
            time.sleep(0.01)

    def samples(self, count: int, first: float, step: float = 0.0) -> int:
        """Take samples from now on, and let their time pass; return when the first one begins."""
        now = time.perf_counter_ns()
        taken = self.c.fake_pm_samples(
            C.c_size_t(0), C.c_uint64(now), C.c_uint64(NS), C.c_uint64(count), C.c_double(first),
            C.c_double(step),
        )  # fmt: skip
        assert taken == count
        time.sleep(count * NS / 1e9)
        return now


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A machine whose one device is a FAKE100."""
    from tests.native.cupti_programs import build_fake

    recorder = pytest.importorskip("tileprof.native._recorder")
    played = build_fake()
    monkeypatch.setenv("TILEPROF_CUPTI", str(played))
    plan = series_control.make_series_plan
    monkeypatch.setattr(
        series_control, "make_series_plan", lambda asked: plan(asked, lambda path: "FAKE100")
    )
    recorder.gpu_after_fork()
    made = Gpu(Fake(played, recorder))
    yield made
    profiler.finalize()
    if recorder.gpu_started():
        recorder.gpu_stop()
    assert (made.c.fake_pm_misuses(), made.c.fake_pm_devices()) == (0, 0)
    made.c.fake_current(C.c_uint64(0))


def only(profile: Profile) -> CounterSeries:
    """The one series of a profile."""
    (series,) = profile.tables.series
    return series


def test_a_run(gpu: Gpu, tmp_path: Path) -> None:
    """Samples are in the profile and its file, by device, with units; launches go on as they do."""
    session = profiler.start(tmp_path / "a.tprof", pm_sampling=True, metrics="tensor,memory")
    gpu.launch()
    begin = gpu.samples(5, 50.0, 10.0)
    profile = session.finalize()
    series = only(profile)
    assert (series.device, series.interval) == ("cuda:0", NS)
    assert (series.start - begin).tolist() == [n * NS for n in range(5)]
    assert series.duration.tolist() == [NS] * 5
    names = [(metric.name, metric.unit) for metric in series.metrics]
    assert names[:3] == [("tensor_use", "share"), ("dram_use", "share"), ("dram_read", "bytes/s")]
    # The played device counts a metric's place times the sample's value.
    assert series.values[0].tolist() == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9])
    assert series.values[2].tolist() == pytest.approx(
        [n * 3 * 1e9 / NS for n in range(50, 100, 10)]
    )
    assert series.mean(0) == pytest.approx(0.7)
    loaded = load(tmp_path / "a.tprof")
    assert loaded == profile
    told = profile.tables.provenance["counters over time"]
    assert told == "tensor, memory on FAKE100, every 200 µs; 5 samples"
    assert "pm_sampling=200 metrics=tensor,memory" in profile.tables.provenance["options"]
    assert "counters not sampled" not in profile.tables.provenance


def test_sessions_have_their_own_time(gpu: Gpu) -> None:
    """One that began later has none of the samples from before."""
    first = profiler.start(pm_sampling=True)
    gpu.launch()
    gpu.samples(3, 1.0)
    time.sleep(0.01)
    second = profiler.start(pm_sampling=True)
    gpu.launch()
    gpu.samples(4, 1.0)
    gpu.until_read(7)
    beside = profiler.start()
    assert len(only(second.finalize())) == 4
    assert beside.finalize().tables.series == ()
    assert len(only(first.finalize())) == 7


def test_a_pause_has_no_samples(gpu: Gpu) -> None:
    """Nothing is sampled while a session is inactive."""
    session = profiler.start(pm_sampling=True)
    gpu.launch()
    gpu.samples(2, 1.0)
    session.deactivate()
    with pytest.raises(AssertionError):
        gpu.samples(2, 1.0)
    session.activate()
    gpu.samples(3, 1.0)
    assert len(only(session.finalize())) == 5


def test_profiles_beside_each_other(gpu: Gpu) -> None:
    """Each keeps its own; operations carry them along."""
    with profiler.profile(pm_sampling=True) as session:
        gpu.launch()
        gpu.samples(2, 1.0)
    one = session.finalize()
    both = merge([one, one])
    assert both.tables.series == one.tables.series * 2
    both.check()


def test_what_cannot_be_counted_at_once(gpu: Gpu) -> None:
    """It is refused before anything starts."""
    with pytest.raises(UsageError) as caught:
        profiler.start(pm_sampling=True, metrics="tensor,slow__cycles")
    said = str(caught.value)
    assert "FAKE100 cannot count tensor, slow__cycles at once: that takes 2 passes" in said
    assert "Leave out slow__cycles: this takes several passes by itself." in said


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [*(("pm_enable_result", code, where) for code, (where, _) in REFUSALS.items()),
     *(("pm_enable_result", code, way) for code, (_, way) in REFUSALS.items()),
     ("pm_start_result", 999, "cuptiPmSamplingStart: FAKE_ERROR (999)"),
     ("chip", 1, "device 0 is a OTHER1, and counters were chosen for a FAKE100")],
)  # fmt: skip
def test_what_fails_is_told(gpu: Gpu, option: str, code: int, said: str) -> None:
    """The program goes on, and so do call paths."""
    gpu.fake.option(option, code)
    with profiler.profile(pm_sampling=True) as session:
        gpu.launch()
    profile = session.finalize()
    assert said in profile.tables.provenance["counters not sampled"]
    assert profile.tables.series == ()


def test_a_machine_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says why there is nothing."""
    monkeypatch.setattr(cupti_library, "find_cupti", lambda: None)
    with profiler.profile(pm_sampling=True) as session:
        pass
    assert session.finalize().tables.provenance["counters not sampled"]


def test_what_excludes_each_other(gpu: Gpu) -> None:
    """In one session, and in two at a time."""
    with pytest.raises(UsageError, match="pm_sampling and pc_sampling exclude"):
        profiler.start(pm_sampling=True, pc_sampling=True)
    session = profiler.start(pm_sampling=True)
    with pytest.raises(UsageError, match="pm_sampling and pc_sampling exclude"):
        profiler.start(pc_sampling=True)
    with pytest.raises(UsageError, match="of launches and over time exclude"):
        profiler.start(metrics="tensor")
    session.finalize()


def test_series_that_are_damaged() -> None:
    """Rows out of order and columns of several lengths are no series."""
    metric = SeriesMetric("a", "1")
    good = CounterSeries.of("cuda:0", 5, [1, 6], [5, 5], (metric,), [[1.0, 2.0]])
    good.check()
    assert good == CounterSeries.of("cuda:0", 5, [1, 6], [5, 5], (metric,), [[1.0, 2.0]])
    assert good != CounterSeries.of("cuda:0", 5, [1, 6], [5, 5], (metric,), [[1.0, 3.0]])
    from tileprof.errors import InternalError

    for start, duration in (([6, 1], [5, 5]), ([1, 6], [5, 0])):
        with pytest.raises(InternalError, match="not in order"):
            CounterSeries.of("cuda:0", 5, start, duration, (metric,), [[1.0, 2.0]]).check()
    assert np.isnan(CounterSeries.of("cuda:0", 5, [1], [5], (metric,), [[np.nan]]).mean(0))
