"""Programs on a played CUPTI, beside the whole tree that they give: calls, kernels, copies, idle.

The times of records are the test's own; only the order in which a program calls is real.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

import tileprof.profiler as profiler
from tests.profiler_programs import expect, run, tree
from tests.repeated import in_one_of_five_runs
from tileprof.profile import Profile, grouped
from tileprof.profiler.host.store import Store
from tileprof.profiler.tree.totals import DeviceTotals

recorder = pytest.importorskip("tileprof.native._recorder")


def test_kernels_hang_below_the_calls_that_launched_them(names: dict[str, Any]) -> None:
    """By scope, operation and phase; times, blocks and idle time are those of the records."""
    profile = run(
        """
        def layer():
            op("aten::mm", lambda: kernel("gemm", 1000, 1600, grid=(4, 2, 1)), 3)
        with scope("forward"):
            layer()
        backward("MmBackward0", 3, lambda: kernel("gemm", 2000, 2500, grid=(4, 2, 1)))
        kernel("_Z4fillILi4EEvPf", 2600, 2700)
        deliver()
        """,
        native=True,
        names=names,
    )
    assert tree(profile, "time", "blocks", "idle_time") == expect("""
        frame <module>:3
          scope forward
            frame layer:2
              op aten::mm
                frame layer.<locals>.<lambda>:2
                  api cuLaunchKernel
                    kernel gemm time=600 blocks=8
                op MmBackward0
                  frame <lambda>:5
                    api cuLaunchKernel
                      kernel gemm time=500 blocks=8
                      idle between dependent work idle_time=400
        frame <module>:6
          api cuLaunchKernel
            kernel void fill<4>(float*) time=100 blocks=1
            idle between dependent work idle_time=100
    """)
    assert profile.node(profile.find("gemm")[1]).phase == "backward"
    gemm = profile.tables.kernels[profile.tables.node_kernels[profile.find("gemm")[0]]]
    assert (gemm.device, gemm.attributes["grid"]) == ("cuda:0", "4×2×1")


def test_replays_carry_the_path_of_their_capture(names: dict[str, Any]) -> None:
    """Below the launch of the graph; without a capture seen, right below it."""
    profile = run(
        """
        def capture():
            op("aten::mul", lambda: node(13, 7))
        def replay():
            launched = call(514)
            kernel("mul", 1000, 1100, launched, node=7)
            kernel("early", 1100, 1300, launched, node=8)
        with scope("warm up"):
            capture()
        replay()
        deliver()
        """,
        native=True,
        names=names,
    )
    assert tree(profile, "time", "count") == expect("""
        frame <module>:7
          scope warm up count=1
            frame capture:2
              op aten::mul count=1
        frame <module>:9
          frame replay:4
            api cuGraphLaunch count=1
              scope captured at
                frame <module>:7
                  scope warm up
                    frame capture:2
                      op aten::mul
                        frame capture.<locals>.<lambda>:2
                          kernel mul time=100 count=1
              kernel early time=200 count=1
    """)
    assert "whose capture was not seen" in profile.tables.provenance["lost"]


def test_replays_carry_the_path_of_a_capture_in_a_pause(names: dict[str, Any]) -> None:
    """From the first replay on that is recorded; the capture itself has no numbers."""
    profile = run(
        """
        def build():
            call(528)
            capture(7)
            call(529)
        def replay():
            kernel("mul", 1000, 1100, call(514), node=7)
        profiler.deactivate()
        with scope("warm up"):
            build()
        replay()
        profiler.activate()
        replay()
        deliver()
        """,
        native=True,
        names=names,
    )
    assert tree(profile, "time", "count") == expect("""
        frame <module>:12
          frame replay:6
            api cuGraphLaunch count=1
              scope captured at
                frame <module>:8
                  scope warm up
                    frame build:3
                      api cuLaunchKernel
                        kernel mul time=100 count=1
    """)
    assert "lost" not in profile.tables.provenance


def test_streams_of_a_recording(names: dict[str, Any]) -> None:
    """Without a timeline: each stream has its kernels and copies, with the paths to them."""
    profile = run(
        """
        def step():
            kernel("a", 1000, 1100, stream=7)
            kernel("a", 2000, 2030, stream=8)
            kernel("a", 3000, 3100, stream=7)
            kernel("a", 4000, 4010, stream=7, device=1)
        step()
        deliver()
        """,
        native=True,
        names=names,
    )
    streams = grouped(profile, "stream")
    time = streams.total("time")
    assert {streams.names[top]: time[top] for top in streams.roots() if time[top]} == {
        "cuda:0 stream 7": 200, "cuda:0 stream 8": 30, "cuda:1 stream 7": 10,
    }  # fmt: skip
    threads = grouped(profile, "thread")
    assert {threads.names[top] for top in threads.roots()} == {"MainThread"}


def test_streams_after_the_first_ones_are_one(names: dict[str, Any]) -> None:
    """A program that always makes new streams does not fill the memory; no time is left out."""
    profile = run(
        """
        def step():
            for stream in range(100):
                kernel("a", 1000 + 100 * stream, 1010 + 100 * stream, stream=stream)
        step()
        deliver()
        """,
        native=True,
        names=names,
    )
    streams = grouped(profile, "stream")
    time = streams.total("time")
    times = {streams.names[top]: time[top] for top in streams.roots() if time[top]}
    assert times == {
        **{f"cuda:0 stream {stream}": 10 for stream in range(64)},
        "cuda:0 other streams": 360,
    }


def test_copies_waits_and_allocations(names: dict[str, Any]) -> None:
    """Each has its kind of node; waits of the host are no time of a device."""
    profile = run(
        """
        copy(277, 1, 3, 4096, 1000, 1500)
        copy(277, 2, 3, 4096, 1500, 1600)
        wait(126, 1000, 1700)
        memory(1, 4096, 1 << 20)
        deliver()
        """,
        native=True,
        names=names,
    )
    assert tree(profile, "time", "bytes", "sync_time", "allocated_bytes") == expect("""
        frame <module>:1
          api cuMemcpyHtoDAsync
            memcpy HtoD pageable time=500 bytes=4096
        frame <module>:2
          api cuMemcpyHtoDAsync
            memcpy HtoD pinned time=100 bytes=4096
        frame <module>:3
          api cuStreamSynchronize
            sync stream sync_time=700
        frame <module>:4
          api cuMemAlloc allocated_bytes=1048576
    """)


def test_work_of_the_measurement_is_not_the_programs(names: dict[str, Any]) -> None:
    """Its copies, waits and memory are nowhere; what another thread does meanwhile is recorded."""
    profile = run(
        """
        from tileprof.runtime import hooks
        import threading
        other = threading.Thread(target=lambda: kernel("theirs", 1000, 1100))
        with hooks.unrecorded():
            copy(277, 2, 3, 64, 1200, 1300)
            wait(126, 1200, 1300)
            memory(1, 4096, 1 << 20)
            other.start()
            other.join()
        kernel("ours", 1400, 1500)
        deliver()
        """,
        native=True,
        context="scopes",
        names=names,
    )
    assert {profile.names[at] for at in profile.find(kind="kernel")} == {"theirs", "ours"}
    assert not profile.find(kind="memcpy") + profile.find(kind="sync")
    assert [profile.names[at] for at in profile.find(kind="api")] == ["cuLaunchKernel"]
    assert "allocated_bytes" not in profile.metrics


def test_sessions_get_what_was_launched_while_they_listened(names: dict[str, Any]) -> None:
    """Records come late: they belong to who was active at the launch."""
    whole = profiler.start(context="scopes")
    with profiler.profile(context="scopes") as part:
        names["kernel"]("a", 1000, 1100)
    names["kernel"]("b", 1100, 1300)
    whole.deactivate()
    names["kernel"]("c", 1300, 1400)
    whole.activate()
    names["deliver"]()

    def kernels(profile: Profile) -> dict[str, int]:
        nodes = [profile.node(n) for n in range(len(profile)) if profile.kinds[n] == "kernel"]
        return {node.name: int(node.own("time")) for node in nodes}

    assert part.profile is not None
    assert kernels(whole.finalize()) == {"a": 100, "b": 200}
    assert kernels(part.profile) == {"a": 100}


def test_long_gaps_are_where_the_host_was(names: dict[str, Any]) -> None:
    """Not at the launch that ended them, but at the path that the sampler saw meanwhile."""

    def busy(session: profiler.Session) -> None:
        events = session.recording.recorder.events
        assert events is not None
        begin, patience = time.perf_counter_ns(), 2_000
        while len(events.trail.between(begin, time.perf_counter_ns())) < 3 and patience:
            time.sleep(0.005)
            patience -= 1

    with profiler.profile(context="python") as session:
        idle_from = time.perf_counter_ns()
        names["kernel"]("first", idle_from - 1000, idle_from)
        busy(session)
        idle_to = time.perf_counter_ns()
        names["kernel"]("second", idle_to + 1000, idle_to + 2000)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    idle = [n for n in range(len(profile)) if profile.kinds[n] == "idle"]
    assert profile.whole["idle_time"] == idle_to + 1000 - idle_from
    (at_work,) = [n for n in idle if "busy" in str([profile.names[p] for p in profile.path(n)])]
    assert profile.names[at_work] == "waiting for the host"
    assert profile.node(at_work).own("idle_time") >= 0.7 * profile.whole["idle_time"]


def test_flush_of_another_thread_at_the_end_loses_no_idle_time(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The periodic flush comes between the final one and the snapshot, as it may at any time."""
    with profiler.profile(context="python") as session:
        flush = session.recording.recorder.flush_devices

        def both(final: bool) -> None:
            flush(final)
            flush(final=False)

        monkeypatch.setattr(session.recording.recorder, "flush_devices", both)
        names["kernel"]("first", 1000, 2000)
        names["kernel"]("second", 2400, 3000)
        names["deliver"]()
    assert session.profile is not None
    assert session.profile.whole["idle_time"] == 400


@in_one_of_five_runs
def test_shares_of_a_gap_add_up_to_it(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three looks at three places share a million ns."""
    with profiler.profile(context="python") as session:
        recorder = session.recording.recorder
        assert recorder.events is not None
        root = recorder.tree.root
        looks = [recorder.tree.child(root, "frame", f"place {at}", None) for at in range(3)]
        monkeypatch.setattr(recorder.events.trail, "between", lambda begin, end: looks)
        names["kernel"]("first", 1000, 2000)
        names["kernel"]("second", 1_002_000, 1_003_000)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    shares = [profile.node(n).own("idle_time") for n in profile.find(kind="idle")]
    expected = [333_333, 333_333, 333_334]
    assert sorted(shares) == expected, (profile.text(), profile.tables.provenance)


@in_one_of_five_runs
def test_many_gaps_at_one_node_are_handed_out_as_one(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 waits for a slow host are one total, with the time of each in its sketch."""
    given: list[int] = []
    take = Store.take_device

    def counted(store: Store, index: int, totals: DeviceTotals) -> None:
        if totals.what == "idle":
            given.append(totals.count)
        take(store, index, totals)

    monkeypatch.setattr(Store, "take_device", counted)
    with profiler.profile(context="python") as session:
        recorder = session.recording.recorder
        assert recorder.events is not None
        place = recorder.tree.child(recorder.tree.root, "frame", "place", None)
        monkeypatch.setattr(recorder.events.trail, "between", lambda begin, end: [place])
        at = 1000
        for wait in range(301):
            names["kernel"]("kernel", at, at + 1000)
            at += 1000 + 1_000_000 * (1 + wait % 2)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    assert given == [300], (profile.text(), profile.tables.provenance)
    (idle,) = profile.find(kind="idle")
    assert profile.node(idle).own("idle_time") == 150 * 3_000_000
    sketch = profile.tables.sketches[idle, "idle_time"]
    assert sketch.counts.tolist() == [150, 150]
