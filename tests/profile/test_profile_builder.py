"""The tree builder: interning, folding, laws of combination, snapshots, memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from tileprof.errors import Location, UsageError
from tileprof.profile import FOLDED_NAME, MAX_SIBLINGS, Metric, Profile, TreeBuilder


def outline(profile: Profile, metric: str) -> str:
    """Return the tree as text: kind, name and own value of a metric."""
    lines = []
    for i in range(len(profile)):
        node = profile.node(i)
        lines.append(f"{'  ' * int(profile.depths[i])}{node.kind} {node.name} {node.own(metric)}")
    return "\n".join(lines)


def test_one_node_per_path() -> None:
    """A symbol under a parent is one node, whichever object says its location."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "main", Location("a.py", 3, function="main"))
    for _ in range(3):
        again = builder.child(-1, "frame", "main", Location("a.py", 3, function="main"))
        assert again == top
    assert builder.child(-1, "frame", "main", Location("a.py", 4, function="main")) != top
    step = builder.child(top, "scope", "step", Location("a.py", 9))
    assert builder.child(top, "scope", "step", Location("a.py", 10)) == step
    assert builder.child(top, "scope", "step", Location("a.py", 9), "backward") != step
    assert len(builder) == 4


def test_values_combine_by_law() -> None:
    """Sums add, minima and maxima keep the extreme, last keeps the newest."""
    builder = TreeBuilder()
    builder.declare(Metric("clock", "MHz", "last"))
    node = builder.child(-1, "kernel", "k")
    for value in (5, 3, 4):
        for metric in ("time", "time_min", "time_max", "clock"):
            builder.add(node, metric, value)
    builder.sums("count")[node] += 3
    view = builder.snapshot().node(0)
    assert {m: view.own(m) for m in view.profile.metrics} == {
        "clock": 4,
        "time": 12,
        "time_min": 3,
        "time_max": 5,
        "count": 3,
    }


def test_inclusive_values_become_own_values() -> None:
    """Own is the recorded value less the children's; a node without a value owns nothing."""
    builder = TreeBuilder()
    builder.declare(Metric("wall", "ns", inclusive=True))
    frame = builder.child(-1, "frame", "main")
    step = builder.child(frame, "scope", "step")
    load = builder.child(step, "scope", "load")
    builder.add(step, "wall", 100)
    builder.add(load, "wall", 30)
    profile = builder.snapshot()
    assert outline(profile, "wall") == "frame main 0\n  scope step 70\n    scope load 30"
    assert profile.total("wall").tolist() == [100, 100, 30]
    assert profile.notes() == []


def test_overlapping_children_are_said() -> None:
    """Where children amount to more than their parent, own is negative and a note says so."""
    builder = TreeBuilder()
    builder.declare(Metric("wall", "ns", inclusive=True))
    step = builder.child(-1, "scope", "step")
    builder.add(step, "wall", 100)
    for name in ("a", "b"):
        builder.add(builder.child(step, "scope", name), "wall", 80)
    profile = builder.snapshot()
    profile.check()
    assert profile.own["wall"].tolist() == [-60, 80, 80]
    assert profile.notes() == [
        "wall: 1 node recorded less than the children together (they overlapped, "
        "or a visit was still open); own is negative there"
    ]


def test_names_that_never_repeat_fold() -> None:
    """Beyond 1,000 names of a kind the rest share one node that says so; nothing is lost."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "main")
    kept = builder.child(top, "scope", "step0")
    for i in range(3 * MAX_SIBLINGS):
        step = builder.child(top, "scope", f"step{i}")
        builder.add(builder.child(step, "kernel", "k"), "time", 1)
    assert builder.child(top, "scope", "step0") == kept
    profile = builder.snapshot()
    assert len(profile.children(top)) == MAX_SIBLINGS + 1
    (folded,) = profile.find(name=FOLDED_NAME)
    assert FOLDED_NAME == "(folded: more than 1,000 names)"
    assert profile.node(folded).total("time") == 2 * MAX_SIBLINGS
    assert profile.whole["time"] == 3 * MAX_SIBLINGS


@pytest.mark.sweep
def test_repeats_take_no_memory() -> None:
    """Many visits, with fresh locations and names that never repeat, add no memory."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "main")

    def visits(count: int, first: int) -> None:
        for i in range(first, first + count):
            node = builder.child(top, "scope", "step")
            builder.add(node, "time", 7)
            if i % 10 == 0:
                builder.child(top, "scope", f"step{i}", Location("a.py", 1))
                builder.child(top, "op", "add", Location("a.py", i % 3))

    visits(20_000, 0)
    gc.collect()
    tracemalloc.start()
    visits(20_000, 10**6)
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 10_000
    visits(60_000, 2 * 10**6)
    assert builder.snapshot().whole["time"] == 700_000


def test_snapshots_stand_still() -> None:
    """A snapshot does not change when the builder goes on."""
    builder = TreeBuilder()
    node = builder.child(-1, "scope", "a")
    builder.add(node, "time", 1)
    before = builder.snapshot()
    builder.add(builder.child(node, "scope", "b"), "time", 2)
    builder.add(node, "cpu_time", 2)
    assert outline(before, "time") == "scope a 1"
    assert list(before.metrics) == ["time"]
    assert outline(builder.snapshot(), "time") == "scope a 1\n  scope b 2"


def test_huge_sums_do_not_wrap() -> None:
    """Integer sums near the limit of 64 bits become floats instead of wrapping around."""
    builder = TreeBuilder()
    for name in "abc":
        builder.add(builder.child(-1, "kernel", name), "flops", 2**62)
    builder.add(0, "bytes", 2**70)
    profile = builder.snapshot()
    profile.check()
    assert profile.whole == {"flops": 3.0 * 2**62, "bytes": 2.0**70}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Metric("time", "s"), "metric `time` is declared as s/sum, but is ns/sum already"),
        (Metric("mine", "J", "max"), "metric `mine` is declared as J/max, but is J/sum already"),
    ],
)
def test_contradicting_declarations(metric: Metric, message: str) -> None:
    """One name has one meaning, standard metrics included."""
    builder = TreeBuilder()
    builder.declare(Metric("mine", "J"))
    with pytest.raises(UsageError, match=message):
        builder.declare(metric)


def test_misuse_is_said() -> None:
    """Unknown metrics, kinds and parents are refused with the way out."""
    builder = TreeBuilder()
    with pytest.raises(UsageError, match=r"`joules` is not declared\nDeclare it: Metric"):
        builder.add(builder.child(-1, "scope", "a"), "joules", 1)
    with pytest.raises(UsageError, match="kind 'thing' under node -1"):
        builder.child(-1, "thing", "a")
    with pytest.raises(UsageError, match="under node 9"):
        builder.child(9, "scope", "a")
    with pytest.raises(UsageError, match="`time_min` does not add up by sum"):
        builder.sums("time_min")


def test_hot_path_calls_little(calls: Callable[[Callable[[], object]], int]) -> None:
    """A hit of `child` and a sum by `add` are lookups, with few calls of other functions."""
    builder = TreeBuilder()
    place = Location("a.py", 3)
    node = builder.child(-1, "scope", "a", place)
    builder.add(node, "time", 1)
    nothing = calls(lambda: None)
    assert calls(lambda: builder.child(-1, "scope", "a", place)) - nothing <= 3
    assert calls(lambda: builder.add(node, "time", 1)) - nothing <= 2
