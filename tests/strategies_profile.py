"""Random profiles for property tests, small forests with every way of adding up; and operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
from hypothesis import strategies as st

from tileprof.errors import Location
from tileprof.profile import (
    Group,
    Metric,
    Profile,
    Sketch,
    TreeBuilder,
    bottom_up,
    filter_nodes,
    flat,
    grouped,
    leave_out,
    limit_depth,
    prune,
)

METRICS = (
    Metric("time", "ns"),
    Metric("energy", "J"),
    Metric("time_min", "ns", "min"),
    Metric("time_max", "ns", "max"),
    Metric("clock", "Hz", "last"),
    Metric("wall", "ns", inclusive=True),
)

_VALUES = st.one_of(st.integers(0, 10**12), st.integers(-8, 400).map(lambda n: n / 8))
_VISITS = st.integers(1, 2**40)
_PLACES = st.sampled_from(
    [None, Location("a.py", 1, function="f"), Location("a.py", 2, function="f")]
)


@st.composite
def profiles(draw: st.DrawFn, max_nodes: int = 12) -> Profile:
    """Return a profile of at most `max_nodes` nodes, made through the builder."""
    builder = TreeBuilder()
    for metric in METRICS:
        builder.declare(metric)
    for _ in range(draw(st.integers(0, max_nodes))):
        parent = draw(st.integers(-1, len(builder) - 1))
        kind = draw(st.sampled_from(["frame", "scope", "kernel"]))
        phase = draw(st.sampled_from(["", "backward"]))
        node = builder.child(parent, kind, draw(st.sampled_from("abc")), draw(_PLACES), phase)
        for metric in draw(st.lists(st.sampled_from(METRICS), max_size=3)):
            builder.add(node, metric.name, draw(_VALUES))
        if visits := draw(st.lists(_VISITS, max_size=3)):
            builder.add(node, "time", sum(visits))
            builder.add(node, "count", len(visits))
            builder.sketch(node, "time", Sketch.of(visits))
    return builder.snapshot()


def sums(profile: Profile) -> list[str]:
    """Return the names of the metrics that add by sum."""
    return [metric.name for metric in profile.metrics.values() if metric.adds == "sum"]


@st.composite
def operations(draw: st.DrawFn, profile: Profile) -> Profile:
    """Apply one operation with random arguments."""
    choices: list[Callable[[Profile], Profile]] = [
        flat,
        lambda p: limit_depth(p, draw(st.integers(1, 4))),
        lambda p: filter_nodes(p, include=draw(st.sampled_from(["a", "[bc]", "x"]))),
        lambda p: filter_nodes(p, exclude=draw(st.sampled_from(["a", "[bc]", "."]))),
        lambda p: filter_nodes(p, "a", "b"),
        lambda p: grouped(p, draw(st.sampled_from([*{*get_args(Group)} - {"thread", "stream"}]))),
        lambda p: leave_out(
            p, np.array(draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p))), bool)
        )[0],
    ]
    if sums(profile):
        metric = draw(st.sampled_from(sums(profile)))
        choices += [
            lambda p: prune(p, metric, draw(st.floats(0, 1))),
            lambda p: bottom_up(p, metric, draw(st.floats(0, 1)), draw(st.integers(0, 5))),
        ]
    return draw(st.sampled_from(choices))(profile)


@st.composite
def profiles_of_kernels(draw: st.DrawFn, max_nodes: int = 12) -> Profile:
    """Return a profile of frames, kernels and places inside kernels, some with folded parts."""
    builder = TreeBuilder()
    builder.declare(Metric("time", "ns"))
    for _ in range(draw(st.integers(0, max_nodes))):
        parent = draw(st.integers(-1, len(builder) - 1))
        kinds = ["frame", "kernel", "site", "line"] if parent >= 0 else ["frame", "kernel"]
        kind = draw(st.sampled_from(kinds))
        node = builder.child(parent, kind, draw(st.sampled_from("abc")))
        builder.add(node, "time", draw(st.integers(0, 10**6)))
        builder.add(node, "count", draw(st.integers(0, 40)))
    profile = builder.snapshot()
    return (
        prune(profile, "time", 0.2) if "time" in sums(profile) and draw(st.booleans()) else profile
    )
