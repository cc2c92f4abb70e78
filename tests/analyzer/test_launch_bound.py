"""Devices that wait, by what for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.analyzer.made import found, only, report_of
from tests.analyzer.steps import DEPENDENT, LATE, MS, TORCH, Step, training
from tileprof.profile import Metric, StepTimes
from tileprof.profile.timeline import Track
from tileprof.profile.track_totals import TrackTotals

HOST, DATA = "waiting for the host", "waiting for data"
COPY = "waiting for its launch after a host's copy"


def late(idle: float = 30, waited: float = 0, worked: float = 70) -> Step:
    """A forward pass of 1,000 launches a step, of so many ms each step."""
    step = Step()
    forward = step.scope(step.top, "forward")
    op = step.op(step.frame(forward, "mlp", 71), "aten::add", 20_000, cpu_time=40 * MS)
    step.launch(op, "elementwise", worked * MS, 20_000, gaps={LATE: idle * MS}, cpu_time=10 * MS)
    if waited:
        step.wait(step.op(step.top, "aten::item"), waited * MS)
    return step


def test_the_host_is_the_limit() -> None:
    """30 of 100 ms are gaps, none of them between kernels in time; recording makes 27 % of them, so
    that likely 91.9 ms become 70, and 100 at most."""
    finding = only(late().profile(), "launch-bound")
    assert finding.severity == "suggestion"
    assert finding.title == "GPU idle: kernels below train_gpt.py:71 are launched too late"
    assert finding.evidence[1].text == "the host takes 50 µs per launch, a kernel 70 µs"
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        (1 / (1 - 0.45 * 21.9 / 91.9), 91.9 / 70, 100 / 70)
    )
    assert finding.evidence[3].text == (
        "devices work for 70.0 % of the time in steps, 0.0 % in launches that are short or do not"
        " fill them; a step that is launched at once likely takes as long as its kernels"
    )
    recording = finding.evidence[2].text
    assert recording.endswith("the gaps before late launches likely take 27 % less time")


@pytest.mark.parametrize(
    ("idle", "codes"),
    [(0, ["compile"]), (10, ["compile", "optimizer"]), (40, ["optimizer", "compile"])],
)
def test_optimizer_is_fused_as_far_as_gaps_are_its_own(idle: float, codes: list[str]) -> None:
    """The forward pass has 30 ms of gaps: the optimizer's part decides what is tried first."""
    step = late()
    update = step.op(step.scope(step.top, "Optimizer.step#AdamW.step"), "aten::_foreach_add_")
    step.launch(update, "update", MS, 500, gaps={LATE: idle * MS})
    found = only(step.profile(), "launch-bound")
    assert [each.code for each in found.fixes] == codes
    of_optimizer = [each.text for each in found.evidence if "in optimizers" in each.text]
    assert len(of_optimizer) == (idle > 0)
    if idle == 40:  # of 70 ms, 51.1 without a recording, of 122.1 ms
        (text,) = of_optimizer
        assert text.startswith("57.1 % of these gaps are in optimizers")
        assert "alone likely makes the program 1.3" in text


@pytest.mark.parametrize(
    ("worked", "gains"),
    [(25, (1.595, 3.19, 4)), (10, (3.076, 6.152, 10)), (2, (5, 10, 10))],
)
def test_a_graph_of_a_step_takes_as_long_as_its_kernels(
    worked: float, gains: tuple[float, ...]
) -> None:
    """Of 100 ms in which a device works for 25, 79.75 are left without a recording; for 10, 75.7:
    above 5 times the estimate counts by half, and no gain is above 10 times."""
    finding = only(late(idle=100 - worked, worked=worked).profile(), "launch-bound")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(gains, rel=2e-3)
    # Only a gain above what compilers bring is told together with what they bring.
    assert "torch.compile without graphs brought 0.7 to 1.5 times" in finding.evidence[-1].text
    small = only(late().profile(), "launch-bound")
    assert not any("torch.compile" in each.text for each in small.evidence)


def test_time_of_launches_that_are_too_small_serves_several_steps() -> None:
    """Of 70 ms, 20 are those of 20,000 kernels that take 1 µs, as launching does: in a graph, too,
    but at most once for all steps of a batch that is ten times as large."""
    step = late(worked=50)
    small = step.op(step.top, "aten::fill_", 400_000)
    step.launch(small, "fill_kernel", 20 * MS, 400_000)
    gain = only(step.profile(), "launch-bound").program_gain
    assert gain is not None
    assert (gain.mid, gain.high) == pytest.approx((91.9 / 70, 100 / (50 + 20 / 10)))


@pytest.mark.parametrize(("streams", "replayed"), [(1, 25), (4, 12.5)])
def test_kernels_of_several_streams_overlap_in_a_graph(streams: int, replayed: float) -> None:
    """Launched one by one, none overlap; in a graph likely half as far as they can: of 25 ms on
    four streams, between 25 and 6.25."""
    profile = late(idle=75, worked=25).profile()
    (kernel,) = profile.tables.node_kernels
    tracks = [Track("stream", f"cuda:0 stream {each}", each, 0) for each in range(streams)]
    nodes, parts = [kernel] * streams, [25 * MS / streams] * streams
    totals = TrackTotals.of(tracks, *map(np.array, (nodes, range(streams), nodes, parts)))
    tables = replace(profile.tables, track_totals=totals)
    gain = only(replace(profile, tables=tables), "launch-bound").program_gain
    assert gain is not None
    likely = 79.75 / replayed
    assert gain.mid == pytest.approx(likely if likely < 5 else (5 * likely) ** 0.5, rel=2e-3)


def test_steps_that_were_not_recorded_say_what_recording_adds() -> None:
    """The host takes 50 ms for a recorded step, 40 for others: a fifth of the gaps goes."""
    times = StepTimes(5, 20, {"cpu_time": (50e6, 1e6)}, skipped=40e6)
    finding = only(late().profile(provenance=times.provenance()), "launch-bound")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(94 / 70)
    told = "the host takes 50 ms for a recorded step, 40 ms for others, whose gaps are shorter"
    assert finding.evidence[2].text == told


def test_the_place_is_around_most_of_the_gaps() -> None:
    """Three lines of a scope have them; a scope of a library with a few is not named."""
    step = late(idle=0)
    forward = step.scope(step.top, "model")
    for line, idle in ((80, 14), (81, 10), (82, 5)):
        op = step.op(step.frame(forward, "block", line), "aten::mul", 1_000)
        step.launch(op, "elementwise", MS, 1_000, gaps={LATE: idle * MS})
    scan = step.scope(step.op(step.top, "aten::cumsum"), "cub::DeviceScan")
    step.launch(scan, "scan", MS / 10, 20, gaps={LATE: MS})
    finding = only(step.profile(), "launch-bound")
    assert finding.title == "GPU idle: kernels in the scope model are launched too late"
    assert finding.evidence[1].text == (
        "most of them below train_gpt.py:80 (46.7 %), train_gpt.py:81 (33.3 %), train_gpt.py:82"
        " (16.7 %)"
    )


def test_a_call_of_the_whole_program_is_no_place() -> None:
    """The lines of the function that it calls are."""
    step = late(idle=0, worked=1)
    top = step.frame(-1, "<module>", 99)
    for line, idle in ((30, 14), (32, 10)):
        op = step.op(step.frame(top, "main", line), "aten::mul", 1_000)
        step.launch(op, "elementwise", 10 * MS, 1_000, gaps={LATE: idle * MS})
    finding = only(step.profile(), "launch-bound")
    assert finding.title == "GPU idle: kernels are launched too late"
    assert finding.place.location is not None
    assert finding.place.location.line == 30


def test_gaps_all_over_the_program() -> None:
    """No place is around most of them: the title names none."""
    step = late(idle=0, worked=1)
    for line in (80, 81, 82):
        top = step.frame(-1, "worker", line)
        step.launch(step.op(top, "aten::mul", 1_000), "elementwise", 10 * MS, 1_000,
                    gaps={LATE: 10 * MS})  # fmt: skip
    finding = only(step.profile(), "launch-bound")
    assert finding.title == "GPU idle: kernels are launched too late"


def test_launches_in_time_leave_the_measured_gap() -> None:
    """1 µs of each of 1,000 launches, of the device or of dependent work, for ten steps; in a graph
    the time of kernels contains it."""
    gains = [only(late().profile({"launch_gap": 1000.0}), "launch-bound").program_gain]
    step = late()
    step.idle(step.op(step.top, "aten::mul"), DEPENDENT, 1000.0, 1)
    gains.append(only(step.profile(), "launch-bound").program_gain)
    for gain in gains:
        assert gain is not None
        assert gain.mid == pytest.approx(92.17 / 70, rel=1e-4)
        assert gain.high == pytest.approx(100 / 70.1, rel=1e-4)


def test_a_host_that_is_ahead_is_not_the_limit() -> None:
    """It waits for longer than launches are late, as in the case study."""
    assert not found(late(waited=40).profile(), "launch-bound")
    assert only(late(waited=20).profile(), "launch-bound")
    assert not found(training().profile(), "launch-bound")


def test_a_host_that_stands_in_launches_is_ahead() -> None:
    """The device's queue is full for longer than launches are late elsewhere."""
    step = late()
    full = step.node(step.op(step.top, "aten::mul"), "api", "command buffer full (overhead)")
    step.builder.declare(Metric("overhead_time", "ns"))
    step.builder.add(full, "overhead_time", 25 * MS)
    assert only(step.profile(), "launch-bound")
    step.builder.add(full, "overhead_time", 10 * MS)
    assert not found(step.profile(), "launch-bound")


def test_few_gaps() -> None:
    """One percent."""
    assert not found(late(idle=1, worked=99).profile(), "launch-bound")
    for name in ("h200-gemm", "h200-stalls"):
        assert "launch-bound" not in {each.rule for each in report_of(name).findings}


@pytest.mark.parametrize(("loading", "share"), [(40, 0.2), (10, 0.1), (0, 0)])
def test_gaps_before_copies_are_the_loaders_as_far_as_it_takes(
    loading: float, share: float
) -> None:
    """A fifth of the time passes before copies of data; the host is in the loader for 40, 10 or 0
    of 100 ms a step."""
    step = late(idle=0, worked=80)
    step.op(
        step.frame(step.top, "batches", 134),
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", cpu_time=loading * MS,
    )  # fmt: skip
    step.launch(step.op(step.top, "aten::copy_"), "cast", MS / 100, gaps={COPY: 20 * MS})
    said = [each for each in found(step.profile(), "launch-bound") if "data loader" in each.title]
    assert len(said) == bool(share)
    for each in said:
        assert each.title == "GPU idle: no data from the data loader at train_gpt.py:134"
        assert each.program_gain is not None
        low, mid = each.program_gain.low, each.program_gain.mid
        assert (low, mid) == pytest.approx((1 / (1 - 0.4 * share), 1 / (1 - share)), rel=1e-3)


def waiting_for_data(idle: float) -> Step:
    """Steps of 100 ms, in so many of which the device waits while the host is in a loader."""
    step = late(idle=0, worked=100 - idle)
    loader = step.frame(
        step.frame(step.scope(step.top, "data"), "batches", 134), "DataLoader.__next__", 721,
        f"{TORCH}utils/data/dataloader.py",
    )  # fmt: skip
    step.idle(loader, DATA, idle * MS)
    return step


def test_two_workers_are_what_a_loader_likely_gets() -> None:
    """Of 80 ms of 100 that the device waits for data, 40 go likely, and all at most."""
    gain = only(waiting_for_data(80).profile(), "launch-bound").program_gain
    assert gain is not None
    assert (gain.mid, gain.high) == pytest.approx((1 / 0.4, 1 / 0.2))


def test_waiting_for_data() -> None:
    """A fifth of the time, in each step; the place is the loop's line, not the loader's."""
    finding = only(waiting_for_data(20).profile(), "launch-bound")
    assert finding.title == "GPU idle: no data from the data loader at train_gpt.py:134"
    assert "num_workers" in finding.author
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(1 / 0.8)


@pytest.mark.parametrize("reason", [DATA, HOST])
def test_what_happens_once_is_left_alone(reason: str) -> None:
    """A gap of one step, as the first one has, is no matter for the others."""
    step = late(idle=0, worked=80)
    step.idle(step.frame(step.top, "train", 163), reason, 20 * MS, 1)
    assert not found(step.profile(), "launch-bound")


def test_waiting_for_the_host() -> None:
    """Measured, at a line, but not known why: a symptom, without a number."""
    step = late(idle=0, worked=80)
    step.idle(step.frame(step.top, "augment", 12), HOST, 20 * MS)
    finding = only(step.profile(), "launch-bound")
    assert (finding.severity, finding.program_gain) == ("symptom", None)
    assert finding.title == "GPU idle: waiting for the host at train_gpt.py:12"
    assert finding.evidence[0].text.startswith("20.0 %")


def test_gaps_that_are_seen_at_several_places() -> None:
    """Each stands where the host was: together they come in each step; first uses do not."""
    step = late(idle=0, worked=80)
    loader = step.scope(step.top, "data")
    for line in range(130, 140):
        step.idle(step.frame(loader, "batches", line), DATA, 2 * MS, 2)
    finding = only(step.profile(), "launch-bound")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(1 / 0.8)
    step = late(idle=0, worked=80)
    for line in range(130, 150):
        step.idle(step.frame(step.top, "train", line), HOST, MS, 1)
    assert not found(step.profile(), "launch-bound")


def test_imports_before_the_steps() -> None:
    """A gap of seconds, seen at many places, outside of the scope of the steps."""
    step = late(idle=0, worked=80)
    for number in range(200):
        here = step.frame(step.frame(-1, "main", 90), f"exec_module_{number}", 1, "<frozen>")
        step.idle(here, HOST, MS, 1 + 20 * (number % 2))
    assert not found(step.profile(), "launch-bound")


def test_before_the_first_step() -> None:
    """What is recorded in full before the steps does not count."""
    step = late(idle=0, worked=80)
    step.phase = "set-up"
    op = step.op(step.frame(-1, "main", 9), "aten::copy_", 100)
    step.launch(op, "elementwise", MS, 100, gaps={LATE: 20 * MS})
    assert not found(step.profile(), "launch-bound")
