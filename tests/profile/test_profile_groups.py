"""Trees by kernel, stream, thread and rank: whose the numbers are, and that none is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies_profile import profiles
from tests.viewer.samples import node, profile_of, with_children
from tileprof.errors import InternalError, ProfileFileError, UsageError
from tileprof.profile import (
    Group,
    KernelInfo,
    Metric,
    Profile,
    Sketch,
    Tables,
    Timeline,
    TimelineEvents,
    Track,
    TrackSums,
    TrackTotals,
    TreeBuilder,
    filter_nodes,
    grouped,
    load,
    merge,
    merge_by,
    save,
    with_frames,
)
from tileprof.profile.storage import limits, track_bytes

MAIN, WORKER = Track("thread", "MainThread", 140), Track("thread", "worker", 141)
FIRST, SECOND = Track("stream", "cuda:0 stream 7", 7, 0), Track("stream", "cuda:1 stream 7", 7, 1)
TRACKS = (MAIN, WORKER, FIRST, SECOND)


def recorded(kernel_time: int = 100) -> Profile:
    """A scope in two threads, which launch a kernel each on streams of their own; and a copy.

    The kernel takes 30 ns three times on the first stream and 10 ns once on the second.
    """
    builder = TreeBuilder()
    step = builder.child(-1, "scope", "step")
    builder.add(step, "cpu_time", 100)
    builder.add(step, "count", 2)
    inside = builder.child(step, "frame", "f")
    builder.add(inside, "cpu_time", 10)
    kernel = builder.child(step, "kernel", "k")
    for metric, value in (("time", kernel_time - 20), ("count", 4), ("flops", 400)):
        builder.add(kernel, metric, value)
    builder.add(kernel, "time_max", 30)
    builder.sketch(kernel, "time", Sketch.of([30, 30, 30, 10]))
    builder.add(builder.child(kernel, "site", "load"), "time", 20)
    kernels = {kernel: 0}
    copy = builder.child(step, "memcpy", "HtoD")
    builder.add(copy, "time", 7)
    builder.add(copy, "bytes", 64)
    events = TimelineEvents.of(
        [0, 0, 50, 100, 150, 60, 200],
        [400, 400, 30, 30, 30, 10, 7],
        [step, step, kernel, kernel, kernel, kernel, copy],
        [0, 1, 2, 2, 2, 3, 2],
        [-1, -1, 0, 0, 0, 1, -1],
    )
    timeline = Timeline.holding(TRACKS, events)
    return builder.snapshot(Tables((KernelInfo("k", "cuda:0"),), kernels, timeline=timeline))


def by_group(profile: Profile, metric: str) -> dict[str, float]:
    """Return what each node at the top has of a metric, by its name, where it has any."""
    profile.check()
    profile.tables.timeline.check(len(profile))
    total = profile.total(metric)
    return {profile.names[top]: total[top] for top in profile.roots() if total[top]}


def test_kernels_have_the_paths_that_launch_them() -> None:
    """One node for each name, copies too; what no kernel took stands apart."""
    profile = profile_of(
        with_children(node("frame", "a", "a.py:1", cpu_time=5), node("kernel", "k", time=9)),
        with_children(
            node("frame", "b", "a.py:2"),
            with_children(node("kernel", "k", time=2), node("site", "load", time=1)),
            node("memcpy", "HtoD pinned", time=4),
            node("op", "aten::mm", cpu_time=3),
        ),
    )
    tree = grouped(profile, "kernel")
    assert by_group(tree, "time") == {"k": 12, "HtoD pinned": 4}
    assert by_group(tree, "cpu_time") == {"(no kernel)": 8}
    found = {"/".join(tree.names[each] for each in tree.path(at)) for at in range(len(tree))}
    assert {"k/a/k", "k/b/k/load", "HtoD pinned/b/HtoD pinned", "(no kernel)/b/aten::mm"} < found


def test_streams_have_the_time_of_their_events() -> None:
    """Times to the nanosecond, other sums by the number of events; the host ran on none."""
    tree = grouped(recorded(), "stream")
    first, second = FIRST.name, SECOND.name
    assert by_group(tree, "time") == {first: 97, second: 10}
    assert by_group(tree, "count") == {first: 3, second: 1, "(no stream)": 2}
    assert by_group(tree, "flops") == {first: 300, second: 100}
    assert by_group(tree, "cpu_time") == {"(no stream)": 110}
    assert by_group(tree, "time_max")[first] == 30
    assert sorted(tree.tables.node_kernels) == tree.find("k", "kernel")


def test_threads_have_what_they_launched() -> None:
    """Work of a device is on the launching thread; where that is unknown, the tree says so.

    A frame, which is sampled, is divided as the scope around it.
    """
    tree = grouped(recorded(), "thread")
    assert by_group(tree, "time") == {"MainThread": 90, "worker": 10, "(not on the timeline)": 7}
    assert by_group(tree, "cpu_time") == {"MainThread": 55, "worker": 55}


def test_time_in_a_thread_is_without_what_is_inside() -> None:
    """A scope is divided by the time in which nothing else was entered in it."""
    builder = TreeBuilder()
    step = builder.child(-1, "scope", "step")
    op = builder.child(step, "op", "aten::mm")
    builder.add(step, "cpu_time", 40)
    builder.add(op, "cpu_time", 90)
    events = TimelineEvents.of([0, 5, 0], [100, 90, 30], [step, op, step], [0, 0, 1], [-1, -1, -1])
    profile = builder.snapshot(Tables(timeline=Timeline.holding((MAIN, WORKER), events)))
    assert by_group(grouped(profile, "thread"), "cpu_time") == {"MainThread": 100, "worker": 30}


def test_work_before_the_timeline_stands_apart() -> None:
    """The timeline keeps the newest events alone; what is older is on no stream that is known."""
    tree = grouped(recorded(kernel_time=150), "stream")
    lost = "(not on the timeline)"
    assert by_group(tree, "time") == {FIRST.name: 97, SECOND.name: 10, lost: 50}


def test_events_follow_their_part() -> None:
    """So the timeline of the new tree names the stream of each event."""
    tree = grouped(recorded(), "stream")
    events = tree.tables.timeline.events
    tops = [tree.names[tree.path(at)[0]] for at in events.node.tolist()]
    on = [TRACKS[track].name for track in events.track.tolist()]
    kinds = [TRACKS[track].kind for track in events.track.tolist()]
    assert [top for top, kind in zip(tops, kinds) if kind == "stream"] == [
        name for name, kind in zip(on, kinds) if kind == "stream"
    ]


@pytest.mark.parametrize("group", ["stream", "thread"])
def test_without_tracks_there_is_a_way_out(group: Group) -> None:
    """Files of earlier versions without a timeline, and sums of several of them, have none."""
    for profile in (profile_of(node("kernel", "k", time=9)), merge([recorded(), recorded()])):
        with pytest.raises(UsageError, match=f"does not know the {group} of") as caught:
            grouped(profile, group)
        assert "Record it again" in str(caught.value)


def with_totals(*rows: tuple[int, int, int, int]) -> Profile:
    """The same with the parts of its nodes by track, as recordings have them, and no timeline."""
    profile = recorded()
    totals = TrackTotals.of(TRACKS, *np.array(rows, np.int64).T)
    return replace(
        profile, tables=replace(profile.tables, track_totals=totals, timeline=Timeline())
    )


TOTALS = ((0, 0, 1, 80), (0, 1, 1, 20), (2, 2, 3, 90), (2, 3, 1, 10), (4, 2, 1, 7))


def test_totals_by_track_need_no_timeline() -> None:
    """What a device did has the thread of its launch; streams have the device's work alone."""
    profile = with_totals(*TOTALS)
    threads, streams = grouped(profile, "thread"), grouped(profile, "stream")
    assert by_group(threads, "time") == {"MainThread": 86, "worker": 21}
    assert by_group(threads, "cpu_time") == {"MainThread": 88, "worker": 22}
    first, second = FIRST.name, SECOND.name
    assert by_group(streams, "time") == {first: 97, second: 10}
    assert by_group(streams, "count") == {first: 3, second: 1, "(no stream)": 2}
    assert by_group(streams, "cpu_time") == {"(no stream)": 110}


def test_totals_by_track_follow_their_nodes(tmp_path: Path) -> None:
    """Through filters, files and sums of several profiles; without them nothing is known."""
    profile = with_totals(*TOTALS)
    cut_off = filter_nodes(profile, exclude="^k$")
    assert by_group(grouped(cut_off, "stream"), "time") == {FIRST.name: 97, SECOND.name: 10}
    save(profile, tmp_path / "a.tprof")
    again = load(tmp_path / "a.tprof")
    assert again.tables.track_totals == profile.tables.track_totals
    both = merge([profile, again])
    assert by_group(grouped(both, "stream"), "time") == {FIRST.name: 194, SECOND.name: 20}
    with pytest.raises(UsageError, match="does not know the thread"):
        grouped(merge([profile, recorded()]), "thread")


def test_tracks_that_a_file_cannot_hold_are_one_for_each_kind() -> None:
    """All events stay, and the tracks before them are those of the rows."""
    tracks = [Track("thread" if i % 2 else "stream", str(i), i) for i in range(limits.TRACKS + 10)]
    every = np.arange(len(tracks))
    totals = TrackTotals.of(tracks, every * 0, every, every * 0 + 1, every)
    assert len(totals.tracks) == limits.TRACKS
    assert [t.name for t in totals.tracks[-2:]] == ["other streams", "other threads"]
    assert totals.sums.events.tolist() == [1] * (limits.TRACKS - 2) + [6, 6]
    assert int(totals.sums.time.sum()) == int(every.sum())


def test_damaged_totals_are_refused() -> None:
    """A node, or a track, that does not exist; columns that are not even."""
    for rows in ([(9, 0, 1, 1)], [(0, 4, 1, 1)], [(0, 0, -1, 1)]):
        totals = TrackTotals(TRACKS, TrackSums.typed(*np.array(rows).T))
        with pytest.raises(InternalError, match="does not exist"):
            totals.check(5)
    columns = track_bytes.to_bytes(TrackSums.typed([0], [0], [1], [1]))
    with pytest.raises(ProfileFileError, match="`time` of the tracks ends within a number"):
        track_bytes.from_bytes(TRACKS, {**columns, "time": columns["node"]}, 1)
    with pytest.raises(ProfileFileError, match="threads and streams are damaged"):
        track_bytes.from_bytes(TRACKS, {"node": columns["node"]}, 1)


def test_ranks_stand_beside_each_other() -> None:
    """Profiles of one name are added up, and metrics that a rank lacks are nothing."""
    one = profile_of(with_children(node("frame", "a", "a.py:1"), node("kernel", "k", time=9)))
    other = profile_of(node("kernel", "k", time=2, bytes=8))
    tree = merge_by([one, other, one], ["rank 0", "rank 1", "rank 0"])
    assert by_group(tree, "time") == {"rank 0": 18, "rank 1": 2}
    assert by_group(tree, "bytes") == {"rank 1": 8}


def test_an_installed_program_has_its_frames_below_a_rank() -> None:
    """Its package is found below the nodes that only name ranks."""
    program = profile_of(
        with_children(
            node("frame", "main", "/x/site-packages/app/cli.py:1", cpu_time=1),
            node("frame", "json", "/x/site-packages/json2/a.py:1", cpu_time=1),
        )
    )
    shown = with_frames(merge_by([program], ["rank 0"]), "user").profile
    assert shown.names == ["rank 0", "main"]


@st.composite
def timelines(draw: st.DrawFn, profile: Profile) -> Profile:
    """Return the profile with random events at its nodes."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 400),
                st.integers(0, 200),
                st.integers(0, len(profile) - 1),
                st.integers(0, 3),
                st.integers(-1, 9),
            ),
            max_size=10,
        )
        if len(profile)
        else st.just([])
    )
    start, duration, at, track, launch = zip(*rows) if rows else ((), (), (), (), ())
    known = [each if each < len(rows) and track[each] < 2 else -1 for each in launch]
    events = TimelineEvents.of(start, duration, at, track, known)
    tables = replace(profile.tables, timeline=Timeline.holding(TRACKS, events))
    return replace(profile, tables=tables)


@given(data=st.data(), profile=profiles())
def test_totals_survive_each_group(data: st.DataObject, profile: Profile) -> None:
    """Whatever is on the timeline; and no visit is lost from a distribution."""
    made = data.draw(timelines(profile))
    for group in get_args(Group):
        tree = grouped(made, group)
        tree.check()
        tree.tables.timeline.check(len(tree))
        assert dict(tree.whole) == pytest.approx(dict(profile.whole), nan_ok=True)
        assert visits(tree) == visits(profile)


def visits(profile: Profile) -> int:
    """Return the number of values in all distributions."""
    return sum(int(each.counts.sum()) for each in profile.tables.sketches.values())


@given(parts=st.lists(profiles(), max_size=3))
def test_totals_survive_ranks(parts: list[Profile]) -> None:
    """A tree of ranks amounts to what the ranks do together."""
    tree = merge_by(parts, [f"rank {number % 2}" for number in range(len(parts))])
    tree.check()
    assert dict(tree.whole) == pytest.approx(dict(merge(parts).whole), nan_ok=True)


def test_whole_numbers_stay_whole() -> None:
    """Parts of an integer are integers and add up to it."""
    tree = grouped(recorded(), "thread")
    assert tree.own["count"].dtype.kind == "i"
    assert tree.metrics["time"] == Metric("time", "ns")
