"""A profile with a timeline, and Perfetto's format taken apart."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

from tileprof.errors import Location
from tileprof.profile import Profile, Tables, Timeline, TimelineEvents, Track, TreeBuilder

Fields: TypeAlias = dict[int, list[Any]]
"""Values by number of the field: numbers, and bytes of texts and messages."""

MAIN = Track("thread", "MainThread", 140)
STREAM = Track("stream", "cuda:0 stream 7", 7, 0)


def traced(*rows: tuple[str, int, int, Track, int | None]) -> Profile:
    """A profile with events: name of the node, start, end, track, and the place of the launch.

    Nodes are step > aten::mm > cuLaunchKernel > gemm, and task > part.
    """
    builder = TreeBuilder()
    ids = {"step": builder.child(-1, "scope", "step", Location("/w/train.py", 7, function="main"))}
    ids["aten::mm"] = builder.child(ids["step"], "op", "aten::mm", None, "backward")
    ids["cuLaunchKernel"] = builder.child(
        ids["aten::mm"], "api", "cuLaunchKernel", None, "backward"
    )
    ids["gemm"] = builder.child(ids["cuLaunchKernel"], "kernel", 'gemm<"ß">', None, "backward")
    ids["task"] = builder.child(-1, "scope", "task")
    ids["part"] = builder.child(ids["task"], "scope", "part")
    for node in ids.values():
        builder.add(node, "count", 1)
    tracks = list(dict.fromkeys(row[3] for row in rows))
    events = TimelineEvents.of(
        [row[1] for row in rows],
        [row[2] - row[1] for row in rows],
        [ids[row[0]] for row in rows],
        [tracks.index(row[3]) for row in rows],
        [-1 if row[4] is None else row[4] for row in rows],
    )
    provenance = {"pid": "5", "command": "tileprof run train.py"}
    return builder.snapshot(
        Tables(timeline=Timeline.holding(tracks, events), provenance=provenance)
    )


STEP = (
    ("step", 1_000, 9_000, MAIN, None),
    ("aten::mm", 1_000, 5_000, MAIN, None),
    ("cuLaunchKernel", 2_000, 3_000, MAIN, None),
    ("cuLaunchKernel", 3_000, 3_000, MAIN, None),
    ("gemm", 4_001, 8_500, STREAM, 2),
    ("gemm", 8_500, 8_600, STREAM, 3),
)
"""A step with two launches; the second took no time."""


def fields_of(content: bytes) -> Fields:
    """A message of protobuf by the numbers of its fields."""
    found: Fields = {}
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        value: Any
        match tag & 7:
            case 0:
                value, at = _varint(content, at)
            case 1:
                value, at = struct.unpack_from("<Q", content, at)[0], at + 8
            case 2:
                size, at = _varint(content, at)
                value, at = content[at : at + size], at + size
                assert len(value) == size
            case kind:
                raise AssertionError(f"no such kind of field: {kind}")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not content[at - 1] & 0x80:
            return value, at


def packets(trace: bytes) -> Iterator[Fields]:
    """The packets of a trace."""
    whole = fields_of(trace)
    assert whole.keys() == {1}
    return map(fields_of, whole[1])


def told(trace: bytes) -> list[str]:
    """What a reader of a trace sees, a line for each packet; flows are lettered as they come."""
    names: dict[int, dict[int, str]] = {}
    tracks: dict[int, str] = {}
    lines, letters = [], iter("abcdefgh")
    flows: dict[int, str] = {}
    for packet in packets(trace):
        for content in packet.get(60, ()):
            about = fields_of(content)
            name = about[2][0].decode() if 2 in about else fields_of(about[3][0])[6][0].decode()
            tracks[about[1][0]] = name
            above = tracks[about[5][0]] if 5 in about else ""
            lines.append(f"track {name!r} in {above!r}" if above else f"process {name!r}")
        for content in packet.get(12, ()):
            for field, entries in fields_of(content).items():
                pairs = (fields_of(entry) for entry in entries)
                names[field] = {pair[1][0]: pair[2][0].decode() for pair in pairs}
        for content in packet.get(11, ()):
            event = fields_of(content)
            line = f"{packet[8][0]} {tracks[event[11][0]]}: "
            if event[9] == [2]:
                lines.append(line + "end")
                continue
            [note] = map(fields_of, event[4])
            line += f"{names[1][event[3][0]]} {names[2][event[10][0]]}"
            line += f", {names[3][note[1][0]]}: {names[29][note[17][0]]}"
            for field, arrow in ((47, "->"), (48, "<-")):
                for flow in event.get(field, ()):
                    if flow not in flows:
                        flows[flow] = next(letters)
                    line += f" {arrow}{flows[flow]}"
            lines.append(line)
    return lines
