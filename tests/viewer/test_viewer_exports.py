"""Files for other people's tools."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.strategies_profile import profiles
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer import EXPORTS, FOLDER_EXPORTS, export
from tileprof.viewer.columns import default_metric

SMALL = with_children(
    node("frame", "main", "/w/a.py:7", time=5),
    node("kernel", "k", time=1_500, count=2),
    node("kernel", "empty"),
    node("kernel", "l", time=0.25),
)


def test_the_formats_are_known_by_name() -> None:
    """A name that is not in the registry is answered with the list."""
    known = ", ".join([*EXPORTS, *FOLDER_EXPORTS])
    message = f"there is no export format `pprof`\nThe formats are: {known}."
    with pytest.raises(UsageError, match=re.escape(message)):
        export(matmul(), "pprof")


def test_chrome_events_nest_and_pack() -> None:
    """Children lie side by side from their parent's start; the file says that it is no timeline."""
    document = json.loads(export(profile_of(SMALL), "chrome"))
    note = (
        "aggregate, not a timeline: widths are sums over the run; order and position mean nothing"
    )
    process = {"ph": "M", "pid": 0, "tid": 0}
    event = {"ph": "X", "pid": 0, "tid": 0}
    assert document == {
        "traceEvents": [
            {**process, "name": "process_name", "args": {"name": "tileprof: time"}},
            {**process, "name": "thread_name", "args": {"name": note}},
            {
                **event,
                "name": "main",
                "cat": "frame",
                "ts": 0.0,
                "dur": 1.506,
                "args": {"time (own)": 5.0, "location": "/w/a.py:7"},
            },
            {
                **event,
                "name": "k",
                "cat": "kernel",
                "ts": 0.0,
                "dur": 1.5,
                "args": {"time (own)": 1500.0, "count (own)": 2.0},
            },
            {
                **event,
                "name": "l",
                "cat": "kernel",
                "ts": 1.5,
                "dur": 0.001,
                "args": {"time (own)": 0.25},
            },
        ],
        "displayTimeUnit": "ns",
        "otherData": {"kind": note, "metric": "time", "unit": "ns"},
    }


def test_speedscope_opens_and_closes() -> None:
    """One profile a metric, in the units that speedscope knows; frames are shared."""
    document = json.loads(export(profile_of(SMALL), "speedscope"))
    assert document == {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "tileprof",
        "name": "tileprof",
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {"name": "main", "file": "/w/a.py", "line": 7},
                {"name": "k"},
                {"name": "empty"},
                {"name": "l"},
            ]
        },
        "profiles": [
            {
                "type": "evented",
                "name": "time",
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": 1506,
                "events": [
                    {"type": "O", "frame": 0, "at": 0},
                    {"type": "O", "frame": 1, "at": 0},
                    {"type": "C", "frame": 1, "at": 1500},
                    {"type": "O", "frame": 3, "at": 1500},
                    {"type": "C", "frame": 3, "at": 1501},
                    {"type": "C", "frame": 0, "at": 1506},
                ],
            },
            {
                "type": "evented",
                "name": "count",
                "unit": "none",
                "startValue": 0,
                "endValue": 2,
                "events": [
                    {"type": "O", "frame": 0, "at": 0},
                    {"type": "O", "frame": 1, "at": 0},
                    {"type": "C", "frame": 1, "at": 2},
                    {"type": "C", "frame": 0, "at": 2},
                ],
            },
        ],
    }


def test_collapsed_stacks_hold_own_values() -> None:
    """One line a path that holds something itself; a positive value is never rounded to 0."""
    assert export(profile_of(SMALL), "collapsed") == "main 5\nmain;k 1500\nmain;l 1\n"


def test_the_code_of_a_file_is_called_after_it() -> None:
    """Bars of a flame graph have no place beside their names."""
    tree = with_children(
        node("frame", "<module>", "/home/me/train.py:7"), node("kernel", "k", time=9)
    )
    assert export(profile_of(tree), "collapsed") == "train.py;k 9\n"


def test_collapsed_names_cannot_break_the_format() -> None:
    """Separators and line ends within names are escaped, and so is the escape itself."""
    tree = with_children(node("scope", "a;b\\x"), node("scope", "c\nd e", time=2))
    assert export(profile_of(tree), "collapsed") == r"a\x3bb\\x;c\nd e 2" + "\n"


def test_hatchet_reads_back() -> None:
    """The literal gives the same numbers when it is read."""
    text = export(matmul(), "hatchet")
    again = Profile.from_literal(json.loads(text))
    assert again.whole["time"] == matmul().whole["time"]
    assert "multiply" in again.names


@pytest.mark.parametrize("name", ["chrome", "collapsed", "speedscope"])
def test_a_stack_1500_deep_is_exported(name: str) -> None:
    """Depth costs no recursion of ours."""
    tree = node("kernel", "bottom", time=7)
    for level in range(1_500):
        tree = with_children(node("frame", f"f{level}"), tree)
    assert "bottom" in str(export(profile_of(tree), name))


@pytest.mark.parametrize("name", ["chrome", "collapsed", "speedscope"])
def test_a_profile_without_numbers_has_no_widths(name: str) -> None:
    """Formats that draw widths refuse a profile that holds none."""
    with pytest.raises(UsageError, match="holds no metric that adds up"):
        export(profile_of(node("frame", "main")), name)


@given(profiles())
def test_chrome_events_never_overlap_in_part(profile: Profile) -> None:
    """Any two events lie within or beside each other, in whole nanoseconds."""
    if not any(metric.adds == "sum" for metric in profile.metrics.values()):
        return
    spans = [
        (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000))
        for e in json.loads(export(profile, "chrome"))["traceEvents"]
        if e["ph"] == "X"
    ]
    ends: list[int] = []
    for start, end in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or end <= ends[-1]
        ends.append(end)


@given(profiles())
def test_speedscope_files_are_well_formed(profile: Profile) -> None:
    """Events go forward, close what they opened, and fill the profile."""
    if not any(profile.whole[n] > 0 for n, m in profile.metrics.items() if m.adds == "sum"):
        return
    document: dict[str, Any] = json.loads(export(profile, "speedscope"))
    frames = len(document["shared"]["frames"])
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    for shown in document["profiles"]:
        stack: list[int] = []
        at = shown["startValue"]
        for event in shown["events"]:
            assert at <= event["at"] <= shown["endValue"]
            assert 0 <= event["frame"] < frames
            at = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert (stack, at) == ([], shown["endValue"])


@given(profiles())
def test_collapsed_weights_add_up(profile: Profile) -> None:
    """The weights are the positive own values, each rounded to a whole number of at least 1."""
    if not any(metric.adds == "sum" for metric in profile.metrics.values()):
        return
    own = profile.own[default_metric(profile)]
    weights = [
        int(line.rpartition(" ")[2])
        for line in str(export(profile, "collapsed")).split("\n")
        if line
    ]
    assert sum(weights) == sum(max(1, int(np.rint(value))) for value in own.tolist() if value > 0)
