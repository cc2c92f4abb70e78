"""Random profiles for property tests: small forests with every way of adding up."""

from __future__ import annotations

from hypothesis import strategies as st

from tileprof.errors import Location
from tileprof.profile import Metric, Profile, TreeBuilder

METRICS = (
    Metric("time", "ns"),
    Metric("energy", "J"),
    Metric("time_min", "ns", "min"),
    Metric("time_max", "ns", "max"),
    Metric("clock", "Hz", "last"),
    Metric("wall", "ns", inclusive=True),
)

_VALUES = st.one_of(st.integers(0, 10**12), st.integers(-8, 400).map(lambda n: n / 8))
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
    return builder.snapshot()
