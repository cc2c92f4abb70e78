"""Device memory of programs: by path, at the peak, over time, and what grows from step to step."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import tileprof
import tileprof.profiler as profiler
from tests.profiler_programs import as_ours, expect, run, tree
from tileprof.profile import Profile, load, save
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.exports.public import export

recorder = pytest.importorskip("tileprof.native._recorder")
EVENTS = recorder.MEMORY_EVENTS
METRICS = ("allocations", "allocated_bytes", "peak_bytes", "live_bytes")


@as_ours
def allocate(address: int, size: int) -> None:
    """What PyTorch's allocator tells when it hands memory out."""
    recorder.memory_event(EVENTS["allocated"], 0, address, size)


@as_ours
def release(address: int) -> None:
    """The same when it has it back."""
    recorder.memory_event(EVENTS["released"], 0, address, 0)


def record(source: str, **options: Any) -> Profile:
    """Run a program that allocates."""
    recorder.memory_forget()
    calls = {"allocate": allocate, "release": release, "step": profiler.step, "events": EVENTS}
    try:
        names = {**calls, **options.pop("names", {})}
        return run(source, native=True, memory=True, names=names, **options)
    finally:
        recorder.memory_forget()


TRAINING = """
def forward(n):
    with scope("forward"):
        op("aten::mm", lambda: allocate(100 + n, 30), 3)
        op("aten::relu", lambda: allocate(200 + n, 20))
def train():
    op("aten::empty", lambda: allocate(1, 1000))
    forward(0)
    release(200)
    backward("MmBackward0", 3, lambda: allocate(300, 15))
    release(100)
train()
"""


def test_memory_hangs_below_the_paths_that_allocate() -> None:
    """The peaks of all add up to the program's."""
    profile = record(TRAINING, context="scopes")
    assert tree(profile, *METRICS) == expect("""
        scope forward
          op aten::mm allocations=1 allocated_bytes=30 peak_bytes=30
            op MmBackward0 allocations=1 allocated_bytes=15 live_bytes=15
          op aten::relu allocations=1 allocated_bytes=20 peak_bytes=20
        op aten::empty allocations=1 allocated_bytes=1000 peak_bytes=1000 live_bytes=1000
    """)
    assert profile.whole["peak_bytes"] == 1050
    assert profile.tables.provenance["device memory"] == (
        "cuda:0: 1.05 KB at most, by PyTorch's allocator"
    )


def test_lifetimes_have_quantiles() -> None:
    """From allocation to release, of what was released."""
    profile = record(
        """
        for n, ns in enumerate((100, 100, 100, 9000)):
            op("aten::mul", lambda: allocate(n, 8))
            spend(ns)
            release(n)
        """,
        context="scopes",
    )
    (node,) = profile.find("aten::mul")
    assert profile.own["lifetime"][node] == 9300
    text = render_view(profile, ViewOptions(metrics=("lifetime_p50",)), width=100)
    assert "100 ns" in text


def test_memory_is_kept_in_files(tmp_path: Path) -> None:
    """All metrics, and the use over time."""
    profile = record(TRAINING, context="scopes")
    save(profile, tmp_path / "memory.tprof")
    assert load(tmp_path / "memory.tprof") == profile


def test_use_over_time_is_a_series(tmp_path: Path) -> None:
    """On the timeline's clock, which a file keeps; in traces and pages it is a counter."""
    before = time.perf_counter_ns()
    recorder.memory_forget()
    session = profiler.start(tmp_path / "memory.tprof", memory=True)
    allocate(1, 4 << 20)
    recorder.memory_event(EVENTS["reserved"], 0, 4096, 20 << 20)
    time.sleep(0.002)
    release(1)
    session.finalize()
    after = time.perf_counter_ns()
    profile = load(tmp_path / "memory.tprof")
    (series,) = profile.tables.series
    assert [(each.name, each.unit) for each in series.metrics] == [
        ("memory allocated", "bytes"), ("memory reserved", "bytes"),
    ]  # fmt: skip
    assert series.device == "cuda:0"
    assert (series.values[0].max(), series.values[0][-1]) == (4 << 20, 0)
    assert series.values[1][-1] == 20 << 20
    assert before <= series.start[0] < series.start[-1] <= after
    counters = [each for each in json.loads(export(profile, "chrome"))["traceEvents"]
                if each["ph"] == "C"]  # fmt: skip
    assert {each["name"] for each in counters} == {
        "memory allocated (bytes)", "memory reserved (bytes)",
    }  # fmt: skip
    recorder.memory_forget()


def test_what_grows_from_step_to_step_is_found() -> None:
    """At its path; memory that comes back, or was there after two steps, is not."""
    profile = record(
        """
        def train(n):
            if n == 0:
                op("state", lambda: allocate(1, 1000))
            op("loss", lambda: allocate(100 + n, 10))
            op("temporary", lambda: allocate(50, 7))
            release(50)
            step()
        for n in range(10):
            train(n)
        """,
        context="scopes",
    )
    assert tree(profile, "growth_bytes", "grown_steps") == expect("""
        op state
        op loss growth_bytes=80 grown_steps=8.0
        op temporary
    """)


@pytest.mark.parametrize(
    ("steps", "back", "grows"), [(20, 12, True), (20, 3, False), (4, 9, False)]
)
def test_growth_is_told_from_what_comes_and_goes(steps: int, back: int, grows: bool) -> None:
    """Memory that is freed after some steps is a cache; one that shrinks once may be none."""
    profile = record(
        f"""
        for n in range({steps}):
            op("cache", lambda: allocate(n, 10))
            if n % {back} == {back} - 1:
                release(n), release(n - 1)
            step()
        """,
        context="scopes",
    )
    assert ("growth_bytes" in profile.metrics) is grows


def test_memory_of_a_pause_is_nobodys() -> None:
    """What is released in one is not taken for a leak."""
    profile = record(
        """
        op("before", lambda: allocate(1, 100))
        profiler.deactivate()
        release(1)
        op("meanwhile", lambda: allocate(2, 500))
        profiler.activate()
        op("after", lambda: allocate(3, 10))
        allocate(4, 1)
        """,
        context="scopes",
    )
    assert tree(profile, "allocations", "allocated_bytes", "peak_bytes") == expect("""
        op before allocations=1 allocated_bytes=100
        op after allocations=1 allocated_bytes=10 peak_bytes=10
        scope allocated where no path is known allocations=1 allocated_bytes=1 peak_bytes=1
    """)
    found = profile.tables.provenance["device memory"]
    assert "511 B at most" in found
    assert "500 B of it allocated while nothing was recorded" in found


def test_drivers_memory_counts_beside_the_allocators(names: dict[str, Any]) -> None:
    """Pinned memory has no part in the peak; what the allocator took counts once."""
    profile = record(
        """
        memory(1, 4096, 1 << 20)
        native.memory_event(events["reserved"], 0, 4096, 1 << 20)
        op("aten::empty", lambda: allocate(4096, 512))
        memory(1, 1 << 30, 2048)
        memory(1, 1 << 31, 100, 2)
        memory(2, 1 << 30, 2048)
        deliver()
        """,
        names=names,
        context="scopes",
    )
    assert tree(profile, *METRICS) == expect("""
        api cuMemAlloc allocations=2 allocated_bytes=2148 peak_bytes=2048 live_bytes=100
        op aten::empty allocations=1 allocated_bytes=512 peak_bytes=512 live_bytes=512
        api cuMemFree
    """)
    found = profile.tables.provenance["device memory"]
    assert "taken from the driver; cuda:0: 2.05 KB at most, by the driver" in found


def test_memory_of_modules_is_told_apart(names: dict[str, Any]) -> None:
    """The driver loads a module where a kernel of it is launched first, on any path."""
    profile = record(
        """
        memory(1, 4096, 512, 6)
        memory(1, 8192, 64, 7)
        deliver()
        """,
        names=names,
        context="scopes",
    )
    assert tree(profile, *METRICS[:3]) == expect("""
        api cuMemAlloc
          api static variables of modules allocations=2 allocated_bytes=576 peak_bytes=576
    """)
    found = profile.tables.provenance["device memory"]
    assert "512 B at most, by static variables of modules" in found


def test_setup_and_steps_have_their_own_memory() -> None:
    """Both at the one peak of the program."""
    profile = record(
        """
        op("weights", lambda: allocate(1, 100))
        step()
        op("batch", lambda: allocate(2, 50))
        step()
        """,
        context="scopes",
        every=1,
    )
    found = {
        (node.name, node.phase): (node.own("peak_bytes"), node.own("live_bytes"))
        for node in map(profile.node, range(len(profile)))
    }
    assert found == {("weights", "set-up"): (100, 100), ("batch", ""): (50, 50)}


def test_without_the_option_nothing_is_asked_of_the_allocator() -> None:
    """And no series is kept."""
    session = profiler.start(context="scopes")
    from tileprof.profiler.frameworks import allocator

    assert not allocator._wanted
    assert session.finalize().tables.series == ()
    session = tileprof.profiler.start(context="scopes", memory=True)
    assert allocator._wanted
    session.finalize()
    assert not allocator._wanted
