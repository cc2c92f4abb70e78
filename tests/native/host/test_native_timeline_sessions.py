"""Timelines of sessions, with a CUPTI that is played."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.native.cupti_programs import DEVICE, HTOD_ASYNC, NODE_CREATED, PINNED, Fake
from tests.native.cupti_programs import GRAPH_LAUNCH as REPLAY
from tileprof import profiler
from tileprof.profile import Group, Profile, grouped, load


@pytest.fixture
def played(fake_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The played library, which sessions find."""
    recorder = pytest.importorskip("tileprof.native._recorder")
    recorder.gpu_after_fork()
    monkeypatch.setenv("TILEPROF_CUPTI", str(fake_library))
    yield Fake(fake_library, recorder)
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.gpu_after_fork()


def _events(profile: Profile) -> list[tuple[str, str, int, int | None]]:
    """Name, track, duration and the place of the launch of each event, without the host's times."""
    timeline = profile.tables.timeline
    events = timeline.events
    found = []
    for at in range(len(events)):
        track = timeline.tracks[int(events.track[at])]
        launch = int(events.launch[at])
        ns = int(events.duration[at]) if track.kind == "stream" else -1
        name = profile.names[int(events.node[at])]
        found.append((name, track.name, ns, launch if launch >= 0 else None))
    return found


def _step(fake: Fake, ns: int) -> None:
    with profiler.scope("step"):
        operation = fake.recorder.enter_op("aten::mm", -1, 0)
        fake.kernel("gemm", start=1000 * ns, end=1000 * ns + ns, stream=3)
        fake.recorder.leave(operation)


def test_all_kinds_of_events(played: Fake, tmp_path: Path) -> None:
    """Scopes, operations and calls on their thread, work on its stream, with what launched it."""
    path = tmp_path / "a.tprof"
    session = profiler.start(path, timeline=True, context="scopes")
    with profiler.scope("outer"):
        _step(played, 20)
        played.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 30_000, 30_100, device=1)
    _step(played, 40)
    played.deliver()
    session.finalize()
    profile = load(path)
    assert _events(profile) == [
        ("gemm", "cuda:0 stream 3", 20, 6),
        ("HtoD pinned", "cuda:1 stream 7", 100, 7),
        ("gemm", "cuda:0 stream 3", 40, 10),
        ("outer", "MainThread", -1, None),
        ("step", "MainThread", -1, None),
        ("aten::mm", "MainThread", -1, None),
        ("cuLaunchKernel", "MainThread", -1, None),
        ("cuMemcpyHtoDAsync", "MainThread", -1, None),
        ("step", "MainThread", -1, None),
        ("aten::mm", "MainThread", -1, None),
        ("cuLaunchKernel", "MainThread", -1, None),
    ]
    events = profile.tables.timeline.events
    ends = events.start + events.duration
    for inner, outer in ((4, 3), (5, 4), (6, 5), (7, 3), (9, 8), (10, 9)):
        assert events.start[outer] <= events.start[inner] <= ends[inner] <= ends[outer]
    assert ends[3] <= events.start[8]
    assert "overwritten" not in profile.tables.provenance


def test_times_of_scopes_are_those_of_the_tree(played: Fake) -> None:
    """What the events of a scope amount to is its total time."""
    session = profiler.start(timeline=True, context="scopes")
    for _ in range(20):
        with profiler.scope("a"):
            pass
    profile = session.finalize()
    [node] = profile.find("a")
    events = profile.tables.timeline.events
    assert events.duration[events.node == node].sum() == profile.total("cpu_time")[node]
    assert len(events) == 20


def test_the_newest_are_kept_and_the_others_counted(played: Fake) -> None:
    """As many as asked for of devices, and as many of the host; the viewer's note has the count."""
    session = profiler.start(timeline=5, context="scopes")
    for i in range(1, 9):
        played.kernel("k", start=1000 * i, end=1000 * i + i)
        if i == 4:
            played.deliver()
            session.snapshot()
    played.deliver()
    profile = session.finalize()
    events = profile.tables.timeline.events
    streams = [t.kind == "stream" for t in profile.tables.timeline.tracks]
    on_device = np.array(streams)[events.track]
    assert events.duration[on_device].tolist() == [4, 5, 6, 7, 8]
    assert (~on_device).sum() == 5
    kept = "6 events; the newest are there, 5 at most"
    assert profile.tables.provenance["overwritten"] == kept


def test_events_of_the_host_are_taken_over_in_time(played: Fake) -> None:
    """So all that was asked for is kept, though the thread's ring has room for half of it."""
    session = profiler.start(timeline=8192, context="scopes")
    for _ in range(2):
        for _ in range(4096):
            played.recorder.leave(played.recorder.enter_op("op", -1, 0))
        session.recording.recorder.take_traced()
    profile = session.finalize()
    assert len(profile.tables.timeline.events) == 8192
    assert "overwritten" not in profile.tables.provenance


def test_sessions_have_the_events_of_their_own_time(played: Fake) -> None:
    """Also late ones, and those of a session that pauses; one that did not ask has none."""
    asked = profiler.start(timeline=100, context="scopes")
    other = profiler.start(context="scopes")
    _step(played, 10)
    asked.deactivate()
    _step(played, 20)
    asked.activate()
    played.deliver()
    third = profiler.start(timeline=True, context="scopes")
    _step(played, 30)
    played.deliver()
    names = ["gemm", "step", "aten::mm", "cuLaunchKernel"]
    assert sorted(row[0] for row in _events(third.finalize())) == sorted(names)
    _step(played, 40)
    played.deliver()
    found = _events(asked.finalize())
    assert [row[2] for row in found if row[0] == "gemm"] == [10, 30, 40]
    assert sorted(row[0] for row in found) == sorted(names * 3)
    assert all(row[3] is not None for row in found if row[0] == "gemm")
    assert not other.finalize().tables.timeline.tracks


def test_work_of_a_graph_comes_from_its_launch(played: Fake) -> None:
    """All of it, at the path on which it was captured."""
    session = profiler.start(timeline=True, context="scopes")
    with profiler.scope("capture"):
        for node in (1, 2):
            played.node(NODE_CREATED, node)
    with profiler.scope("replay"):
        launch = played.call(REPLAY)
    for node in (1, 2):
        played.kernel("k", start=1000 * node, end=1000 * node + 5, node=node, correlation=launch)
    played.deliver()
    profile = session.finalize()
    found = _events(profile)
    place = [row[0] for row in found].index("cuGraphLaunch")
    assert [row[3] for row in found if row[0] == "k"] == [place, place]
    [at, _] = [
        int(n) for n, row in zip(profile.tables.timeline.events.node, found) if row[0] == "k"
    ]
    path = [profile.names[node] for node in profile.path(at)]
    assert path == ["replay", "cuGraphLaunch", "captured at", "capture", "k"]


def test_threads_have_tracks_with_their_names(played: Fake) -> None:
    """Also those that end before anybody looks."""
    session = profiler.start(timeline=True, context="scopes")
    thread = threading.Thread(target=_step, args=(played, 10), name="worker")
    thread.start()
    thread.join()
    _step(played, 20)
    played.deliver()
    found = _events(session.finalize())
    assert [row[1] for row in found if row[0] == "step"] == ["worker", "MainThread"]
    launches = [found[row[3]][1] for row in found if row[0] == "gemm" and row[3] is not None]
    assert launches == ["worker", "MainThread"]


def test_frames_fold_where_paths_have_none(played: Fake) -> None:
    """Events are at the nodes of the session's own tree, whatever others record."""
    full = profiler.start(timeline=True)
    plain = profiler.start(timeline=True, context="scopes")
    _step(played, 10)
    played.deliver()
    profiles: list[Any] = [plain.finalize(), full.finalize()]
    assert _events(profiles[0]) == _events(profiles[1])
    assert not profiles[0].find(kind="frame")
    assert profiles[1].find(kind="frame")


def _by_group(profile: Profile, group: Group, metric: str) -> dict[str, int]:
    tree = grouped(profile, group)
    tree.check()
    total = tree.total(metric)
    return {tree.names[top]: int(total[top]) for top in tree.roots() if total[top]}


def test_streams_and_threads_share_a_path(played: Fake) -> None:
    """One node has what two threads launched on streams of their own, and is divided exactly."""

    def work(stream: int, start: int, ns: int) -> None:
        with profiler.scope("step"):
            for at in range(3):
                played.kernel("gemm", start=start + 100 * at, end=start + 100 * at + ns,
                              stream=stream, grid=(2, 1, 1))  # fmt: skip

    session = profiler.start(timeline=True, context="scopes")
    work(3, 1000, 20)
    worker = threading.Thread(target=work, args=(9, 2000, 50), name="worker")
    worker.start()
    worker.join()
    played.deliver()
    profile = session.finalize()
    assert len(profile.find("gemm")) == 1
    streams = _by_group(profile, "stream", "time")
    assert streams == {"cuda:0 stream 3": 60, "cuda:0 stream 9": 150}
    assert _by_group(profile, "stream", "blocks") == dict.fromkeys(streams, 6)
    assert _by_group(profile, "thread", "time") == {"MainThread": 60, "worker": 150}
    host = _by_group(profile, "thread", "cpu_time")
    assert set(host) == {"MainThread", "worker"}
    assert sum(host.values()) == profile.whole["cpu_time"]


def test_streams_of_lost_events_are_known(played: Fake) -> None:
    """Kernels whose events were overwritten are in the totals of their streams."""
    session = profiler.start(timeline=2, context="scopes")
    played.kernel("gone", start=100, end=107, stream=3)
    for at, stream in enumerate((3, 3, 9, 3)):
        played.kernel("k", start=1000 * at + 1000, end=1000 * at + 1010 + at, stream=stream)
    played.deliver()
    assert _by_group(session.finalize(), "stream", "time") == {
        "cuda:0 stream 3": 41, "cuda:0 stream 9": 12
    }  # fmt: skip
