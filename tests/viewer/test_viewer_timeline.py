"""Timelines for other people's tools."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.samples import matmul
from tests.viewer.traces import MAIN, STEP, STREAM, fields_of, packets, told, traced
from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer import export


def _perfetto(profile: Profile) -> bytes:
    content = export(profile, "perfetto")
    assert isinstance(content, bytes)
    return content


def _chrome(profile: Profile) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(export(profile, "chrome"))
    return document


def test_perfetto_has_slices_paths_and_flows() -> None:
    """Slices nest on their tracks; a launch leads to what it launched."""
    step, mm = "step (train.py:7)", "aten::mm (backward)"
    launch = f"{step} > {mm} > cuLaunchKernel"
    gemm = f'kernel gemm<"ß">, path: {launch} > gemm<"ß">'
    main, stream = "MainThread", "cuda:0 stream 7"
    assert told(_perfetto(traced(*STEP))) == [
        "process 'tileprof run train.py'",
        f"track '{main}' in 'tileprof run train.py'",
        f"track '{stream}' in 'tileprof run train.py'",
        f"1000 {main}: scope step, path: {step}",
        f"1000 {main}: op {mm}, path: {step} > {mm}",
        f"2000 {main}: api cuLaunchKernel, path: {launch} ->a",
        f"3000 {main}: end",
        f"3000 {main}: api cuLaunchKernel, path: {launch} ->b",
        f"3000 {main}: end",
        f"4001 {stream}: {gemm} <-a",
        f"5000 {main}: end",
        f"8500 {stream}: end",
        f"8500 {stream}: {gemm} <-b",
        f"8600 {stream}: end",
        f"9000 {main}: end",
    ]


def test_packets_of_perfetto_refer_to_names_told_before() -> None:
    """The packet with the names says that it begins anew, the others that they need it."""
    found = list(packets(_perfetto(traced(*STEP))))
    flags = [(packet[10], packet[13]) for packet in found if 13 in packet]
    assert flags == [([1], [1])] + [([1], [2])] * 12
    process = fields_of(fields_of(found[0][60][0])[3][0])
    assert process == {1: [5], 6: [b"tileprof run train.py"]}


def test_what_overlaps_has_rows_of_its_own() -> None:
    """Tasks on a thread and branches of a graph on a stream: no row holds two that cross."""
    profile = traced(
        ("task", 0, 10, MAIN, None),
        ("part", 5, 15, MAIN, None),
        ("step", 6, 8, MAIN, None),
        ("part", 10, 12, MAIN, None),
        ("gemm", 0, 10, STREAM, None),
        ("gemm", 2, 5, STREAM, None),
        ("gemm", 3, 4, STREAM, None),
        ("gemm", 5, 6, STREAM, None),
    )
    names: dict[int, str] = {}
    rows: dict[str, list[tuple[float, float]]] = {}
    for event in _chrome(profile)["traceEvents"]:
        if event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            ns = (round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000))
            rows.setdefault(names[event["tid"]], []).append(ns)
    assert rows == {
        "MainThread": [(0, 10), (6, 8), (10, 12)],
        "MainThread (2)": [(5, 15)],
        "cuda:0 stream 7": [(0, 10)],
        "cuda:0 stream 7 (2)": [(2, 5), (5, 6)],
        "cuda:0 stream 7 (3)": [(3, 4)],
    }


def test_chrome_has_the_timeline_where_there_is_one() -> None:
    """Times to the ns, call paths as frames, flows from launches."""
    document = _chrome(traced(*STEP))
    assert document["otherData"] == {"command": "tileprof run train.py"}
    frames = document["stackFrames"]
    assert frames["0"] == {"name": "step", "category": "scope"}
    assert frames["3"] == {"name": 'gemm<"ß">', "category": "kernel", "parent": "2"}
    events = document["traceEvents"]
    assert [e["args"] for e in events if e["ph"] == "M"] == [
        {"name": "tileprof run train.py"},
        {"name": "MainThread"},
        {"sort_index": 1},
        {"name": "cuda:0 stream 7"},
        {"sort_index": 2},
    ]
    [gemm] = [e for e in events if e["ph"] == "X" and e["ts"] == 4.001]
    assert gemm == {"ph": "X", "pid": 5, "tid": 2, "ts": 4.001, "dur": 4.499,
                    "name": 'gemm<"ß">', "cat": "kernel", "sf": "3"}  # fmt: skip
    flow = {"id": 4, "pid": 5, "name": "launch", "cat": "launch"}
    assert [e for e in events if e.get("id") == 4] == [
        {**flow, "ph": "s", "tid": 1, "ts": 2.0},
        {**flow, "ph": "f", "bp": "e", "tid": 2, "ts": 4.001},
    ]


times = st.integers(0, 2**62)
spans = st.tuples(times, st.integers(0, 2**40)) | st.tuples(st.integers(0, 9), st.integers(0, 5))


@given(st.lists(st.tuples(spans, st.sampled_from([MAIN, STREAM])), min_size=1, max_size=20))
def test_any_timeline_is_told_in_order(rows: list[tuple[tuple[int, int], Any]]) -> None:
    """Packets ascend; on each track what began last ends first, and everything ends."""
    events = [("task", start, start + ns, track, None) for (start, ns), track in rows]
    opened: dict[int, list[int]] = {}
    found: list[tuple[int, int]] = []
    stamps = []
    for packet in packets(_perfetto(traced(*events))):
        if 11 not in packet:
            continue
        event, [stamp] = fields_of(packet[11][0]), packet[8]
        stamps.append(stamp)
        if event[9] == [1]:
            opened.setdefault(event[11][0], []).append(stamp)
        else:
            found.append((opened[event[11][0]].pop(), stamp))
    assert all(a <= b for a, b in pairwise(stamps))
    assert not any(opened.values())
    assert sorted(found) == sorted((start, start + ns) for (start, ns), _ in rows)


def test_without_a_timeline() -> None:
    """Perfetto's format has nothing to hold; that of Chrome lays the tree out."""
    for profile in (matmul(), traced()):
        with pytest.raises(UsageError, match="the profile has no timeline\nRecord one with"):
            export(profile, "perfetto")
        assert "aggregate" in _chrome(profile)["otherData"]["kind"]
