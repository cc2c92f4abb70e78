"""Hatchet's literal: what is written, what is read of others' literals, what survives both ways."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from tests.strategies_profile import profiles
from tileprof.errors import Location, ProfileFileError
from tileprof.profile import Metric, Profile, TreeBuilder, from_literal, limit_depth, to_literal
from tileprof.profile.literal.names import metric_key, metric_of

Literal = dict[str, Any]


def node(name: str, metrics: dict[str, Any], *children: Literal) -> Literal:
    """Return a node as Proton writes it."""
    frame = {"name": name, "type": "function"}
    return {"frame": frame, "metrics": metrics, "children": list(children)}


def outline(profile: Profile) -> list[tuple[int, str, str, str]]:
    """Return depth, kind, name and place of every node."""
    return [
        (int(profile.depths[i]), n.kind, n.name, str(n.location or ""))
        for i in range(len(profile))
        for n in [profile.node(i)]
    ]


def test_written_as_proton_writes_it() -> None:
    """ROOT lists what adds up, values are own, units stand in names, frames carry their place."""
    builder = TreeBuilder()
    builder.declare(Metric("energy", "J"))
    builder.declare(Metric("wall", "ns", inclusive=True))
    main = builder.child(-1, "frame", "main", Location("run.py", 7, function="main"))
    step = builder.child(main, "scope", "step", Location("run.py", 9, function="main"))
    for phase in ("forward", "backward"):
        gemm = builder.child(step, "kernel", "gemm", phase=phase)
        builder.add(gemm, "time", 41000)
        builder.add(gemm, "count", 1)
        builder.add(gemm, "time_max", 41000)
        builder.add(gemm, "flops", 1.5e9)
        builder.add(gemm, "energy", 0.5)
    builder.add(step, "wall", 99)
    assert to_literal(builder.snapshot()) == [
        node(
            "ROOT",
            {"energy (J)": 0, "wall (ns) (inc)": 99, "time (ns)": 0, "count": 0, "flops": 0},
            node(
                "run.py:7@main",
                {"wall (ns) (inc)": 99, "kind": "frame"},
                node(
                    "step",
                    {"wall (ns) (inc)": 99, "kind": "scope", "location": "run.py:9@main"},
                    node(
                        "gemm",
                        {
                            "energy (J)": 1.0,
                            "time (ns)": 82000,
                            "count": 2,
                            "time_max (ns)": 41000.0,
                            "flops": 3e9,
                            "kind": "kernel",
                            "phase": "forward",
                        },
                    ),
                ),
            ),
        ),
        {},
    ]


DEVICES = {"CUDA": {"0": {"arch": "90", "bus_width": 6144, "num_sms": 132}}}
PROTON = [
    node(
        "ROOT",
        {"count": 0, "time (ns)": 0, "flops16": 0, "bytes": 0},
        node(
            "step",
            {"cpu_time (ns)": 51000, "tokens (inc)": 8},
            node(
                "/w/run.py:12@train",
                {},
                node(
                    "gemm_128x128",
                    {
                        "count": 2,
                        "time (ns)": 41000,
                        "device_id": "0",
                        "device_type": "CUDA",
                        "flops16": 3.4e10,
                        "loads": [1, 2],
                    },
                    node("/w/gemm.py:31@gemm", {"num_samples": 900}),
                    node("/w/gemm.py:32@gemm", {"num_samples": 30}),
                ),
            ),
            node("step2", {}),
            node("step2", {"cpu_time (ns)": 5}),
        ),
    ),
    DEVICES,
]


def test_reading_proton() -> None:
    """Python contexts become frames, samples lines, device ids kernels; siblings merge."""
    profile = from_literal(PROTON)
    profile.check()
    assert outline(profile) == [
        (0, "scope", "step", ""),
        (1, "frame", "train", "/w/run.py:12"),
        (1, "scope", "step2", ""),
        (2, "kernel", "gemm_128x128", ""),
        (3, "line", "gemm", "/w/gemm.py:31"),
        (3, "line", "gemm", "/w/gemm.py:32"),
    ]
    assert profile.metrics == {
        "count": Metric("count", "1"),
        "time": Metric("time", "ns"),
        "flops16": Metric("flops16", "flop"),
        "cpu_time": Metric("cpu_time", "ns"),
        "tokens (inc)": Metric("tokens (inc)", "1", inclusive=True),
        "device_id": Metric("device_id", "1", "last"),
        "loads[0]": Metric("loads[0]", "1"),
        "loads[1]": Metric("loads[1]", "1"),
        "num_samples": Metric("num_samples", "1"),
    }
    assert profile.whole["num_samples"] == 930
    assert profile.whole["cpu_time"] == 51005


def test_proton_comes_back() -> None:
    """What was read of Proton is written again: device table, device ids and own values."""
    root, devices = to_literal(from_literal(PROTON))
    assert devices == DEVICES
    gemm = root["children"][0]["children"][0]["children"][0]
    assert gemm["metrics"] == {
        "count": 2,
        "time (ns)": 41000,
        "flops16": 3.4e10,
        "loads[0]": 1,
        "loads[1]": 2,
        "device_id": "0",
        "device_type": "CUDA",
        "kind": "kernel",
    }
    assert [line["frame"]["name"] for line in gemm["children"]] == [
        "/w/gemm.py:31@gemm",
        "/w/gemm.py:32@gemm",
    ]


def test_reading_hatchets_own() -> None:
    """Inclusive metrics keep their names and give own values; several roots, no ROOT, nids."""
    shared = node("D", {"time": 1.0, "time (inc)": 1.0, "_hatchet_nid": 2})
    literal = [
        node(
            "A",
            {"time": 0.0, "time (inc)": 11.0, "_hatchet_nid": 0},
            node("B", {"time": 10.0, "time (inc)": 11.0, "_hatchet_nid": 1}, shared),
            shared,
        ),
        {"frame": {"type": "region"}, "name": "loop", "metrics": {"time": float("nan")}},
    ]
    profile = from_literal(literal)
    profile.check()
    assert [place[:3] for place in outline(profile)] == [
        (0, "frame", "A"),
        (0, "frame", "loop"),
        (1, "frame", "B"),
        (1, "frame", "D"),
        (2, "frame", "D"),
    ]
    assert profile.total("time (inc)").tolist() == [11.0, 0.0, 11.0, 0.0, 1.0]
    assert profile.own["time (inc)"].tolist() == [0.0, 0.0, 10.0, 0.0, 1.0]
    assert profile.whole == {"time": 11.0, "time (inc)": 11.0}


@given(profile=profiles())
def test_both_ways_conserves(profile: Profile) -> None:
    """Through text and back, sums and the literal itself stay; a cut tree too."""
    for tree in (profile, limit_depth(profile, 2)):
        literal = json.loads(json.dumps(to_literal(tree)))
        again = from_literal(literal)
        again.check()
        for name, metric in tree.metrics.items():
            if metric.adds == "sum" and not metric.inclusive and tree.whole[name]:
                assert again.whole[name] == pytest.approx(tree.whole[name])
        assert to_literal(again)[0]["children"] == literal[0]["children"]


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        (Metric("time", "ns"), "time (ns)"),
        (Metric("time_min", "ns", "min"), "time_min (ns)"),
        (Metric("flops16", "flop"), "flops16"),
        (Metric("bytes", "bytes"), "bytes"),
        (Metric("tokens", "1"), "tokens"),
        (Metric("peak", "bytes", "max"), "peak (bytes) (max)"),
        (Metric("low", "1", "min"), "low (1) (min)"),
        (Metric("age", "min"), "age (min)"),
        (Metric("clock", "MHz", "last"), "clock (MHz) (pty)"),
        (Metric("wall (inc)", "ns", inclusive=True), "wall (ns) (inc)"),
        (Metric("L2 (read)", "bytes"), "L2 (read) (bytes)"),
    ],
)
def test_names_of_metrics(metric: Metric, key: str) -> None:
    """Unit and law go into the name and come out of it."""
    assert metric_key(metric) == key
    assert metric_of(key) == metric


def test_deep_trees_need_no_recursion() -> None:
    """A chain of 5,000 nodes goes both ways."""
    builder = TreeBuilder()
    parent = -1
    for i in range(5_000):
        parent = builder.child(parent, "frame", f"f{i}")
    builder.add(parent, "time", 3)
    profile = builder.snapshot()
    assert from_literal(to_literal(profile)) == profile


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ({}, "this is not a hatchet literal"),
        ([1], "this is not a hatchet literal"),
        ([node("ROOT", {}), 3], "this is not a hatchet literal"),
        ([node("ROOT", {}, {"name": "x"})], "has no `frame`: {'name': 'x'}"),
        ([{"frame": {}, "metrics": {}}], "has no name"),
        ([{"frame": {"name": "a"}, "metrics": 3}], "node `a` of the hatchet literal"),
        ([{"frame": {"name": "a"}, "children": 3}], "`children` of `a` is not a list of nodes"),
    ],
)
def test_malformed_literals(literal: object, message: str) -> None:
    """What is no literal is refused with what is wrong."""
    with pytest.raises(ProfileFileError, match=message):
        from_literal(literal)


def test_to_hatchet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hatchet is given, here by a stand-in for it, has inclusive values."""
    given: list[Literal] = []
    stand_in = SimpleNamespace(from_literal=given.extend)
    monkeypatch.setitem(sys.modules, "hatchet", SimpleNamespace(GraphFrame=stand_in))
    from_literal(PROTON).to_hatchet()
    totals = {}
    while given:
        each = given.pop()
        totals[each["frame"]["name"]] = each["metrics"]["time (ns) (inc)"]
        given += each["children"]
    assert totals["ROOT"] == totals["step"] == totals["gemm_128x128"] == 41000
