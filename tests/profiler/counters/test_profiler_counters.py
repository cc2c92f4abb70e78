"""Hardware counters in profiles, on a played CUPTI: what is asked for, planned, read and shown."""

from __future__ import annotations

import ctypes as C
import importlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tileprof.profiler as profiler
from tests.native.cupti_programs import GRAPH_LAUNCH, LAUNCH, Fake
from tests.profiler_programs import FakeKernel
from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profile import Metric, Profile, load
from tileprof.profile.counters import RATES, SETS, TIME, Counter, counters_of, is_part, rate_of
from tileprof.profiler.counters import control, host, planning
from tileprof.profiler.counters.planning import make_plan
from tileprof.profiler.counters.reading import in_order
from tileprof.profiler.counters.requests import Asked, parse_metrics
from tileprof.profiler.cupti import cupti_library, permissions
from tileprof.profiler.cupti.refusals import REFUSALS
from tileprof.runtime import hooks
from tileprof.runtime.cuda import driver as cuda_driver
from tileprof.runtime.hooks import KernelDescription
from tileprof.viewer import ViewOptions
from tileprof.viewer.columns import available, column, default_rates
from tileprof.viewer.data import view_json

READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
RATIO = "lts__t_sector_hit_rate.pct"
CONTEXT = 0x1000


# -- what is asked for


def test_sets_and_names() -> None:
    """Each name becomes counters; CUPTI's metrics are wanted once, the time of launches first."""
    asked = parse_metrics(" memory, dram__bytes_read.sum ,sm__inst_executed")
    assert isinstance(asked, Asked)
    assert asked.names == ("memory", READ, "sm__inst_executed")
    assert asked.terms[0] == TIME
    assert len(asked.terms) == len(set(asked.terms))
    assert {READ, WRITE, "sm__inst_executed.sum"} < set(asked.terms)
    assert asked.of_term("lts__t_sectors_lookup_hit.sum") == "memory"
    assert parse_metrics(["tensor", "tensor"]) == parse_metrics("tensor")
    assert parse_metrics(None) is parse_metrics(False) is None


@pytest.mark.parametrize("given", ["", "a,,b", "dram bytes", "9a", [], 5, "a.b!"])
def test_what_is_no_name(given: Any) -> None:
    """It is refused, with the sets."""
    with pytest.raises(UsageError) as caught:
        parse_metrics(given)
    assert "memory, tensor, occupancy" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "metrics", "terms"),
    [
        ("dram__bytes_read.sum", [("dram__bytes_read.sum", "bytes", "sum")], [READ]),
        ("dram__bytes_read", [("dram__bytes_read.sum", "bytes", "sum")], [READ]),
        ("sm__inst.avg", [("sm__inst.avg", "1", "sum")], ["sm__inst.avg"]),
        ("sm__inst.max", [("sm__inst.max", "1", "max")], ["sm__inst.max"]),
        ("sm__inst.min", [("sm__inst.min", "1", "min")], ["sm__inst.min"]),
        (
            "sm__inst.avg.pct_of_peak_sustained_active",
            [("above of sm__inst.avg.pct_of_peak_sustained_active", "1", "sum"),
             ("below of sm__inst.avg.pct_of_peak_sustained_active", "1", "sum")],
            ["sm__inst.sum", "sm__inst.sum.peak_sustained_active"],
        ),
        (RATIO, [(f"above of {RATIO}", "1", "sum"), (f"below of {RATIO}", "1", "sum")],
         [RATIO, TIME]),
    ],
)  # fmt: skip
def test_what_a_metric_of_cupti_becomes(
    name: str, metrics: list[tuple[str, str, str]], terms: list[str]
) -> None:
    """Counts add up; of a rate its two parts, or its values by time, are added up apart."""
    found = counters_of(name)
    assert [(c.metric.name, c.metric.unit, c.metric.adds) for c in found] == metrics
    assert [term for c in found for term in c.terms] == terms


def test_throughputs_have_no_parts() -> None:
    """A share of a peak that is the largest of several: its mean is by time."""
    name = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    above, below = counters_of(name)
    assert (above.terms, above.by_time, below.terms) == ((name,), True, (TIME,))
    assert above.value({name: 50.0, TIME: 200.0}) == 100.0
    assert below.value({TIME: 200.0}) == 200.0
    named = rate_of(above.metric.name)
    assert named is not None
    assert (named[0], named[1].unit) == (name, "share")
    assert is_part(below.metric.name)
    assert not is_part("dram_bytes")
    assert rate_of("dram_bytes") is None


def test_rates_of_sets_have_their_parts_in_one_set() -> None:
    """So whoever asks for a set has its rates."""
    held = [{c.metric.name for c in each} | {"time"} for each in SETS.values()]
    for name, rate in RATES.items():
        assert any({rate.above, rate.below} <= names for names in held), name


def test_the_order_of_ranges() -> None:
    """By their numbers, as numbers; in the order of the image where they have none."""
    assert in_order(["10", "9", "100"]) == [1, 0, 2]
    assert in_order(["a", "2"]) == [0, 1]
    assert in_order(["1", "1"]) == [0, 1]


def test_structures_have_the_sizes_that_cupti_expects() -> None:
    """As the header's own macros say them, for 64 bits."""
    sizes = {host._INITIALIZE: 48, host._HOST: 24, host._ADD: 40, host._PLAN_SIZE: 32,
             host._PLAN: 40, host._PASSES: 40, host._BASE: 48, host._COUNT: 40, host._RANGE: 56,
             host._EVALUATE: 72}  # fmt: skip
    assert {kind: host._end(kind) for kind in sizes} == sizes


def test_cupti_itself_knows_all_counters() -> None:
    """Where it is installed: those of sets on Hopper, in few passes; a typing error is told."""
    found = cupti_library.find_cupti()
    if found is None:
        pytest.skip("needs CUPTI")
    try:
        library = host.open_library(found.path)
    except MissingDependencyError:
        pytest.skip("needs a CUPTI that counts launches")
    passes = {}
    for name in SETS:
        asked = parse_metrics(name)
        assert isinstance(asked, Asked)
        with host.Host(library, "GH100") as held:
            passes[name] = held.passes(held.plan(asked.terms))
    assert passes["tensor"] == passes["occupancy"] == 1
    assert 1 <= passes["memory"] <= 8
    wrong = parse_metrics("dram__bytes_raed.sum")
    assert isinstance(wrong, Asked)
    with pytest.raises(UsageError) as caught:
        make_plan(wrong, chip="GH100")
    assert "GH100 has no metric `dram__bytes_raed.sum`" in str(caught.value)
    assert "dram__bytes_read" in str(caught.value)
    with pytest.raises(MissingDependencyError, match="counters cannot be read on XY100"):
        make_plan(wrong, chip="XY100")


# -- on a played CUPTI


class Gpu:
    """The played library with metrics of two functions."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.c = fake, fake.c
        self.c.fake_counter.argtypes = (C.c_char_p, C.c_char_p, C.c_double)
        self.c.fake_metric.argtypes = (C.c_char_p, C.c_int)
        self.c.fake_counters_reset()
        self.c.fake_current(C.c_uint64(CONTEXT))
        for name, of in SETS.items():
            for counter in of:
                for term in counter.terms:
                    self.c.fake_metric(term.encode(), 5 if name == "memory" else 1)

    def counter(self, metric: str, **values: float) -> None:
        """What a metric is for functions."""
        for function, value in values.items():
            self.c.fake_counter(metric.encode(), function.encode(), value)

    def launch(self, function: str, number: int = LAUNCH) -> None:
        """Launch a function."""
        self.c.fake_symbol(function.encode() if function else None)
        self.fake.call(number)

    @property
    def problem(self) -> str:
        """Nothing, unless calls came in a wrong order."""
        return f"{self.c.fake_counter_misuses()} calls in a wrong order"


@pytest.fixture
def gpu(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A machine whose one device is a FAKE100."""
    recorder = pytest.importorskip("tileprof.native._recorder")
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    monkeypatch.setattr(
        control, "make_plan", lambda asked: planning.make_plan(asked, lambda path: "FAKE100")
    )
    recorder.gpu_after_fork()
    made = Gpu(Fake(library, recorder))
    made.counter(TIME, gemm=1000.0, add=250.0)
    made.counter(READ, gemm=6e6, add=1e6)
    made.counter(WRITE, gemm=2e6, add=1e6)
    yield made
    profiler.finalize()
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.counters_configure("", [], b"")
    made.c.fake_symbol(None)
    made.c.fake_current(C.c_uint64(0))
    assert made.problem == "0 calls in a wrong order"
    assert made.c.fake_profiled() == 0


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks what devices are called."""

    def load() -> None:
        raise MissingDependencyError("there is no driver", hint="Install one.")

    monkeypatch.setattr(cuda_driver, "load_driver", load)


def kernels(profile: Profile) -> dict[str, Any]:
    """Nodes of kernels by name."""
    profile.check()
    return {profile.names[at]: profile.node(at) for at in profile.find(kind="kernel")}


def test_counters_and_times_of_kernels(gpu: Gpu, tmp_path: Path) -> None:
    """Added up over launches, at their call paths, in the file too; and no record beside them."""
    path = tmp_path / "a.tprof"
    with profiler.profile(path, context="scopes", metrics="memory") as session:
        with profiler.scope("layer"):
            gpu.launch("_Z4gemmPf")
            gpu.launch("gemm")
            gpu.launch("gemm")
            gpu.launch("add")
        assert gpu.c.fake_kinds() == 0
    found = kernels(load(path))
    gemm = found["gemm"]
    assert (gemm.own("count"), gemm.own("time"), gemm.own("time_max")) == (2, 2000, 1000)
    assert (gemm.own("dram_read_bytes"), gemm.own("dram_bytes")) == (12e6, 16e6)
    assert found["add"].own("dram_bytes") == 2e6
    assert "gemm(float*)" in found
    names = [session.profile.names[at] for at in session.profile.path(gemm.id)] if (
        session.profile) else []  # fmt: skip
    assert names[0] == "layer"
    provenance = load(path).tables.provenance
    assert provenance["counters"] == "memory on FAKE100, each kernel run 5 times; 4 launches"
    assert "metrics=memory" in provenance["options"]
    assert "counters not read" not in provenance
    assert {kernel.device for kernel in load(path).tables.kernels} == {"cuda:0"}


def test_a_kernel_of_ours_has_its_counters(gpu: Gpu) -> None:
    """At the node that its launch has."""
    ours = FakeKernel("matmul", description=KernelDescription("matmul", "cuda:0"))
    session = profiler.start(context="scopes", metrics="memory")
    assert hooks.listener is not None
    assert hooks.listener.times_gpus
    token = hooks.listener.begin(ours)
    gpu.launch("gemm")
    gpu.launch("add")
    hooks.listener.abandon(token)
    found = kernels(session.finalize())
    assert list(found) == ["matmul"]
    assert (found["matmul"].own("time"), found["matmul"].own("dram_bytes")) == (1250, 10e6)


def test_rates_are_never_averaged(gpu: Gpu) -> None:
    """Two kernels of which one hits always and one never: the rate is that of all sectors."""
    gpu.counter("lts__t_sectors_lookup_hit.sum", gemm=100.0, add=0.0)
    gpu.counter("lts__t_sectors_lookup_miss.sum", gemm=0.0, add=900.0)
    gpu.counter(RATIO, gemm=100.0, add=0.0)
    gpu.counter("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", gemm=10.0)
    gpu.counter("smsp__inst_executed_op_shared_ld.sum", gemm=10.0)
    session = profiler.start(context="scopes", metrics=["memory", RATIO])
    with profiler.scope("both"):
        gpu.launch("gemm")
        gpu.launch("add")
    session.finalize()
    profile = session.profile
    assert profile is not None
    (both,) = profile.find("both")
    rate = column(profile, "l2_hit_rate")
    assert (rate.total[both], rate.unit) == (0.1, "share")
    assert {profile.names[at]: rate.total[at] for at in profile.find(kind="kernel")} == {
        "gemm": 1.0, "add": 0.0,
    }  # fmt: skip
    # CUPTI's own rate has no parts: by time, 1000 ns at 100 % and 250 ns at 0 %.
    assert column(profile, RATIO).total[both] == 0.8
    assert RATIO in available(profile)
    assert not [name for name in available(profile) if is_part(name)]
    assert column(profile, "dram_tbyte/s").total[both] == pytest.approx(10e6 / 1250 * 1e-3)
    # None at all is known: 0, and not nothing.
    assert column(profile, "conflicts_per_shared_load").total[both] == 0
    assert math.isnan(column(profile, "conflicts_per_shared_load").total[profile.find("add")[0]])
    asked = ViewOptions(metrics=("time", "dram_tbyte/s", "sectors_per_load", "l2_hit_rate"))
    told = json.loads(view_json(profile, asked))["metrics"]
    assert {name: each["unit"] for name, each in told.items()} == {
        "time": "ns", "dram_tbyte/s": "dram_tbyte/s", "sectors_per_load": "1", "l2_hit_rate": "1",
    }  # fmt: skip
    shown = [each.name for each in default_rates(profile)]
    assert shown == ["avg_time", "dram_tbyte/s", "l2_hit_rate"]


def test_extremes_are_kept(gpu: Gpu) -> None:
    """A metric that is the largest of a device's units stays the largest of launches."""
    gpu.counter("sm__inst_executed.max", gemm=5.0, add=9.0)
    gpu.counter("sm__inst_executed.min", gemm=5.0, add=9.0)
    with profiler.profile(
        context="scopes", metrics="sm__inst_executed.max,sm__inst_executed.min"
    ) as session:
        gpu.launch("gemm")
        gpu.launch("add")
    profile = session.profile
    assert profile is not None
    most, least = (column(profile, f"sm__inst_executed.{law}") for law in ("max", "min"))
    assert (most.whole, least.whole) == (9.0, 5.0)
    assert session.profile is not None
    assert session.profile.metrics["sm__inst_executed.max"] == Metric(
        "sm__inst_executed.max", "1", "max"
    )


def test_a_value_that_cupti_does_not_know(gpu: Gpu) -> None:
    """It is left out; so is an unknown time."""
    gpu.counter(READ, gemm=math.nan)
    gpu.counter(TIME, add=math.nan)
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("gemm")
        gpu.launch("add")
    found = kernels(session.profile) if session.profile else {}
    assert found["gemm"].own("dram_read_bytes") == 0
    assert found["gemm"].own("dram_write_bytes") == 2e6
    assert (found["add"].own("count"), found["add"].own("time")) == (1, 0)


def test_a_graph_is_the_sum_of_its_kernels(gpu: Gpu) -> None:
    """Which stand under one name; launches before and after it are themselves."""
    gpu.counter(TIME, gemm=100.0, **{"": 700.0})
    gpu.fake.option("graph_ranges", 3)
    with profiler.profile(context="scopes", metrics="occupancy") as session:
        gpu.launch("gemm")
        gpu.launch("", GRAPH_LAUNCH)
        gpu.launch("gemm")
    assert session.profile is not None
    found = kernels(session.profile)
    assert {name: (node.own("count"), node.own("time")) for name, node in found.items()} == {
        "gemm": (2, 200), "graph": (3, 2100),
    }  # fmt: skip
    assert "lost" not in session.profile.tables.provenance["counters"]


def test_ranges_that_do_not_fit_their_launches(gpu: Gpu) -> None:
    """None is taken for another: they have a node of their own, and it is said."""
    gpu.fake.option("range_missing")
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("gemm")
        gpu.launch("add")
    assert session.profile is not None
    found = kernels(session.profile)
    assert list(found) == ["launches that could not be told apart"]
    assert found["launches that could not be told apart"].own("time") == 1000
    assert "2 launches lost" in session.profile.tables.provenance["counters"]


def test_only_what_a_session_records(gpu: Gpu) -> None:
    """Launches while it pauses are no ranges of its."""
    session = profiler.start(context="scopes", metrics="memory")
    gpu.launch("gemm")
    session.deactivate()
    gpu.launch("add")
    session.activate()
    gpu.launch("gemm")
    assert {n: k.own("count") for n, k in kernels(session.finalize()).items()} == {"gemm": 2}


def test_a_session_after_one_with_counters_records_as_ever(gpu: Gpu) -> None:
    """Records are back, and nothing is profiled."""
    with profiler.profile(context="scopes", metrics="memory"):
        gpu.launch("gemm")
    with profiler.profile(context="scopes") as session:
        gpu.c.fake_symbol(None)
        gpu.fake.kernel("plain", 1000, 1300)
        gpu.fake.deliver()
    assert session.profile is not None
    found = kernels(session.profile)
    assert (list(found), found["plain"].own("time")) == (["plain"], 300)
    assert "dram_bytes" not in session.profile.metrics
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("add")
    assert session.profile is not None
    assert kernels(session.profile)["add"].own("dram_bytes") == 2e6


# -- what goes wrong


def test_no_permission(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without counters; one sentence says what to change."""
    monkeypatch.setattr(permissions, "refused_remedy", lambda: "run as root")
    gpu.fake.option("range_start_result", 35)
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("gemm")
    assert session.profile is not None
    said = session.profile.tables.provenance["counters not read"]
    assert said == (
        "CUPTI reads no counters without the driver's permission"
        " (cuptiRangeProfilerStart: FAKE_ERROR, 35): run as root;"
        " `--instrument sample` needs no counters"
    )


@pytest.mark.parametrize("code", REFUSALS)
def test_refused_counters_are_said_with_the_way_out(gpu: Gpu, code: int) -> None:
    """Whatever the reason, the program goes on."""
    gpu.fake.option("range_enable_result", code)
    with profiler.profile(context="scopes", metrics="memory") as session, profiler.scope("step"):
        gpu.launch("gemm")
    assert session.profile is not None
    assert session.profile.find("step", "scope")
    where, way = REFUSALS[code]
    said = session.profile.tables.provenance["counters not read"]
    assert said.startswith(f"CUPTI reads no counters {where} (cuptiRangeProfilerEnable: FAKE_ERROR")
    assert way in said


@pytest.mark.parametrize(
    ("option", "code", "text"),
    [
        ("range_config_result", 999, "cuptiRangeProfilerSetConfig: FAKE_ERROR (999)"),
        ("chip", 1, "device 0 is a OTHER1, and counters were chosen for a FAKE100"),
    ],
)
def test_calls_that_fail(gpu: Gpu, option: str, code: int, text: str) -> None:
    """Each with the function and the code."""
    gpu.fake.option(option, code)
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("gemm")
    assert session.profile is not None
    assert text in session.profile.tables.provenance["counters not read"]


def test_images_that_cannot_be_evaluated(gpu: Gpu) -> None:
    """They are counted as lost."""
    gpu.fake.option("evaluate_result", 999)
    with profiler.profile(context="scopes", metrics="memory") as session:
        gpu.launch("gemm")
    assert session.profile is not None
    provenance = session.profile.tables.provenance
    assert "1 launch lost" in provenance["counters"]
    assert provenance["counters not read"] == (
        "cuptiProfilerHostEvaluateToGpuValues failed: FAKE_ERROR (999)"
    )


def test_a_metric_that_the_device_has_not(gpu: Gpu) -> None:
    """It is refused before anything runs, with those that are near."""
    with pytest.raises(UsageError) as caught:
        profiler.start(metrics="tensor,dram__bytes_raed.sum")
    assert "FAKE100 has no metric `dram__bytes_raed.sum`" in str(caught.value)
    assert "It has dram__bytes_read" in str(caught.value)
    with pytest.raises(UsageError, match="what follows its point is not"):
        profiler.start(metrics="dram__bytes_read.max_rate")


def test_without_a_device(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on; the reason is in the profile, and told before."""

    def refuse(path: object) -> str:
        raise MissingDependencyError("there is no CUDA driver", hint="Install it.")

    monkeypatch.setattr(control, "make_plan", lambda asked: planning.make_plan(asked, refuse))
    session = profiler.start(context="scopes", metrics="memory")
    assert session.counters is not None
    assert session.counters.sentence() == ""
    provenance = session.finalize().tables.provenance
    assert provenance["counters not read"] == "there is no CUDA driver (Install it.)"
    assert "counters" not in provenance


def test_passes_are_told_before_the_program_runs(gpu: Gpu) -> None:
    """Where kernels run more than once."""
    session = profiler.start(context="scopes", metrics="memory,tensor")
    assert session.counters is not None
    assert session.counters.sentence() == (
        "the counters of memory, tensor take 5 passes on FAKE100: each kernel runs 5 times, and"
        " memory is put back in between"
    )
    session.finalize()
    session = profiler.start(context="scopes", metrics="tensor")
    assert session.counters is not None
    assert session.counters.sentence() == ""
    session.finalize()


def test_not_together_with_samples(gpu: Gpu) -> None:
    """In one session, or in two that are open at once."""
    with pytest.raises(UsageError, match=re.escape("metrics and pc_sampling exclude each other")):
        profiler.start(metrics="memory", pc_sampling=True)
    session = profiler.start(context="scopes", metrics="memory")
    with pytest.raises(UsageError, match="exclude each other in one process"):
        profiler.start(pc_sampling=True)
    session.finalize()


def test_the_kind_of_device_is_asked_elsewhere(library: Path) -> None:
    """By another process, which says why it cannot; here there is no driver."""
    from tileprof.profiler.counters.lookup import chip_of, find_chip

    assert chip_of(library) == "FAKE100"
    with pytest.raises(MissingDependencyError, match="the kind of device cannot be found out: "):
        find_chip("/nowhere/libcupti.so")


def test_a_counter_of_several_terms() -> None:
    """Their sum, times its factor."""
    counter = Counter(Metric("a", "1"), ("x", "y"), factor=0.5)
    assert counter.value({"x": 2.0, "y": 4.0}) == 3.0


def test_each_access_pattern_has_the_counters_of_its_launch(gpu: Gpu, tmp_path: Path) -> None:
    """Also those of later recordings; a recording is not begun when the time is over."""
    access_patterns: Any = importlib.import_module("benchmarks.access_patterns.__main__")
    patterns = access_patterns.catalogue()["copies"][: 2 * access_patterns.CHUNK + 1]
    gpu.counter(READ, gemm=6.0, add=1.0)
    odd = {each.name: number % 2 for number, each in enumerate(patterns)}

    def launch(pattern: Any) -> None:
        gpu.launch("gemm" if odd[pattern.name] else "add")

    out = tmp_path / "counted.json"
    asked = {"read": READ, "written": WRITE}
    access_patterns.record_launches(patterns, asked, launch, out, 600.0)
    assert json.loads(out.read_text()) == {
        name: {"read": 6.0, "written": 2e6} if is_odd else {"read": 1.0, "written": 1e6}
        for name, is_odd in odd.items()
    }
    access_patterns.record_launches(patterns, asked, launch, out, 0.0)
    # The first of three recordings has every third pattern.
    assert list(json.loads(out.read_text())) == list(odd)[::3]
