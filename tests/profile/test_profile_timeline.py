"""Single events beside a tree: in the file, and through operations that build other trees."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile import (
    Profile,
    Tables,
    Timeline,
    TimelineEvents,
    Track,
    TreeBuilder,
    bottom_up,
    diff,
    filter_nodes,
    flat,
    limit_depth,
    load,
    merge,
    save,
)

MAIN, STREAM = Track("thread", "MainThread", 140), Track("stream", "cuda:0 stream 7", 7, 0)


def _profile(events: TimelineEvents | None = None) -> Profile:
    """Two scopes that launch one kernel each, and a third."""
    builder = TreeBuilder()
    for scope, ns in (("a", 10), ("b", 20)):
        top = builder.child(-1, "scope", scope)
        builder.add(top, "cpu_time", ns)
        builder.add(builder.child(top, "kernel", "k"), "time", ns)
    builder.add(builder.child(-1, "scope", "c"), "cpu_time", 5)
    if events is None:
        events = TimelineEvents.of(
            start=[100, 150, 200, 120, 210],
            duration=[50, 5, 90, 40, 1],
            node=[0, 1, 2, 1, 3],
            track=[0, 0, 0, 1, 1],
            launch=[-1, -1, -1, 0, 2],
        )
    return builder.snapshot(Tables(timeline=Timeline.holding((MAIN, STREAM), events)))


def _rows(profile: Profile) -> list[tuple[object, ...]]:
    """Start, name of the node, start of the launch (or None)."""
    events = profile.tables.timeline.events
    starts = [*events.start.tolist(), None]
    names = [profile.names[node] for node in events.node.tolist()]
    return list(zip(starts, names, (starts[at] for at in events.launch.tolist())))


WHOLE = [(100, "a", None), (120, "k", 100), (150, "k", None), (200, "b", None), (210, "k", 200)]


def test_events_are_put_in_order_with_their_launches() -> None:
    """By their start; of two that begin at once the longer first."""
    assert _rows(_profile()) == WHOLE
    events = TimelineEvents.of([5, 5, 1], [1, 9, 1], [0, 1, 2], [0, 0, 0], [2, 0, -1])
    assert (events.node.tolist(), events.launch.tolist()) == ([2, 1, 0], [-1, 2, 0])


def test_a_file_holds_it(tmp_path: Path) -> None:
    """And equal profiles have equal timelines; they travel to other processes."""
    profile = _profile()
    save(profile, tmp_path / "a.tprof")
    read = load(tmp_path / "a.tprof")
    assert read.tables.timeline.tracks == (MAIN, STREAM)
    assert _rows(read) == WHOLE
    assert read == profile
    other = _profile(TimelineEvents.of([1], [1], [0], [0], [-1]))
    assert read != other
    assert read != replace(profile, tables=Tables())
    assert pickle.loads(pickle.dumps(read.tables.timeline)) == profile.tables.timeline


numbers = st.integers(0, 2**40)


@given(st.lists(st.tuples(numbers, numbers, st.integers(0, 4), st.integers(0, 1), st.booleans())))
def test_any_events_come_back_from_a_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int, bool]]
) -> None:
    """Whatever the numbers are."""
    start, duration, node, track = ([row[i] for row in rows] for i in range(4))
    launches = [len(rows) - 1 - i if row[4] and len(rows) - 1 != 2 * i else -1
                for i, row in enumerate(rows)]  # fmt: skip
    profile = _profile(TimelineEvents.of(start, duration, node, track, launches))
    path = tmp_path_factory.mktemp("t") / "a.tprof"
    save(profile, path)
    assert load(path) == profile


def test_files_without_one_open(tmp_path: Path) -> None:
    """As those of earlier versions, which lack the tables."""
    path = tmp_path / "a.tprof"
    save(_profile(), path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TABLE timeline; DROP TABLE timeline_tracks")
    read = load(path)
    assert not read.tables.timeline.tracks
    assert len(read.tables.timeline.events) == 0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE timeline SET content = x'00' WHERE name = 'start'",
        "DELETE FROM timeline WHERE name = 'node'",
        "DELETE FROM timeline_tracks WHERE id = 1",
        "UPDATE timeline SET content = (SELECT content FROM timeline WHERE name = 'track') "
        "WHERE name = 'duration'",
    ],
)
def test_damage_is_told_when_the_events_are_wanted(tmp_path: Path, change: str) -> None:
    """The tree can be read all the same."""
    path = tmp_path / "a.tprof"
    save(_profile(), path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(change)
        database.commit()
    read = load(path)
    assert read.total("time").sum() == 60
    with pytest.raises(ProfileFileError, match="the profile's timeline is damaged"):
        read.tables.timeline.events  # noqa: B018


def test_events_follow_their_nodes() -> None:
    """What is cut off goes to the node above; what nodes become one, they share."""
    profile = _profile()
    assert [name for _, name, _ in _rows(limit_depth(profile, 1))] == ["a", "a", "a", "b", "b"]
    without_b = _rows(filter_nodes(profile, exclude="b"))
    assert without_b == [*WHOLE[:3], (200, "(hidden)", None), (210, "(hidden)", 200)]
    for turned in (flat(profile), bottom_up(profile, "time")):
        assert _rows(turned) == [row for row in WHOLE if row[1] in turned.names]
    assert _rows(merge([profile])) == WHOLE
    assert _rows(diff(profile, profile).new) == WHOLE


def test_events_of_nodes_that_are_gone_go() -> None:
    """A launch that went is not known any more."""
    events = _profile().tables.timeline.moved(np.array([-1, 7, 8, 9, 10])).events
    assert (events.start.tolist(), events.node.tolist()) == ([120, 150, 200, 210], [7, 7, 8, 9])
    assert events.launch.tolist() == [-1, -1, -1, 2]


def test_runs_that_are_added_up_have_no_timeline() -> None:
    """There is no time that they share."""
    assert not merge([_profile(), _profile()]).tables.timeline.tracks


@pytest.mark.parametrize(
    "events",
    [
        TimelineEvents.of([1], [1], [5], [0], [-1]),
        TimelineEvents.of([1], [1], [0], [2], [-1]),
        TimelineEvents.of([1], [-1], [0], [0], [-1]),
        replace(
            TimelineEvents.of([1, 2], [1, 1], [0, 0], [0, 0], [-1, -1]), start=np.array([2, 1])
        ),
        replace(TimelineEvents.of([1], [1], [0], [0], [-1]), launch=np.array([1], np.int32)),
        replace(TimelineEvents.of([1], [1], [0], [0], [-1]), duration=np.array([1, 2])),
    ],
)
def test_checks(events: TimelineEvents) -> None:
    """Events refer to what exists, and are in order."""
    with pytest.raises(InternalError, match="the timeline"):
        Timeline.holding((MAIN, STREAM), events).check(nodes=5)
