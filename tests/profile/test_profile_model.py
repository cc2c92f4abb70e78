"""The columnar tree: views, tables, JSON, the laws `check` holds, speed at 100,000 nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tileprof.errors import InternalError, Location, UsageError
from tileprof.profile import (
    KernelInfo,
    Metric,
    Profile,
    Symbol,
    Tables,
    TreeBuilder,
    bottom_up,
    build,
    checked_value,
    filter_nodes,
    flat,
    limit_depth,
    merge,
    prune,
    to_json,
)


def example() -> Profile:
    """Return main → (load → k1, compute → (k1, k2)) with times 10, 20, 70."""
    builder = TreeBuilder()
    main = builder.child(-1, "frame", "main", Location("a.py", 3, function="main"))
    load = builder.child(main, "scope", "load")
    compute = builder.child(main, "scope", "compute", phase="forward")
    for parent, name, value in ((load, "k1", 10), (compute, "k1", 20), (compute, "k2", 70)):
        kernel = builder.child(parent, "kernel", name)
        builder.add(kernel, "time", value)
        builder.add(kernel, "time_min", value / 2)
    return builder.snapshot(Tables((KernelInfo("k1", "cpu"),), {3: 0, 4: 0}))


def outline(profile: Profile) -> str:
    """Return the tree as text: name, own + absorbed = total of `time`."""
    lines = []

    def show(nodes: list[int], indent: str) -> None:
        for i in nodes:
            own, absorbed = profile.own["time"][i], profile.absorbed["time"][i]
            total = profile.total("time")[i]
            lines.append(f"{indent}{profile.names[i]} {own}+{absorbed} {total}")
            show(profile.children(i), indent + "  ")

    show(profile.roots(), "")
    return "\n".join(lines)


EXAMPLE = """\
main 0+0 100
  load 0+0 10
    k1 10+0 10
  compute 0+0 90
    k1 20+0 20
    k2 70+0 70"""


def test_tree() -> None:
    """Children in first-seen order, totals over subtrees, a node view onto it."""
    profile = example()
    assert outline(profile) == EXAMPLE
    node = profile.node(2)
    assert (node.kind, node.name, node.phase, node.location) == (
        "scope",
        "compute",
        "forward",
        None,
    )
    assert [child.name for child in node.children] == ["k1", "k2"]
    assert node.parent == profile.node(0)
    assert profile.node(0).parent is None
    assert (node.own("time"), node.total("time"), node.total("time_min")) == (0, 90, 10.0)
    assert np.isnan(node.own("time_min"))
    assert profile.find(name="k1") == [3, 4]
    assert profile.find(kind="scope", name="load") == [1]
    assert profile.path(5) == [0, 2, 5]
    with pytest.raises(UsageError, match=r"no metric `energy`\nIt has: time, time_min\."):
        profile.total("energy")
    with pytest.raises(UsageError, match="6 nodes, so no node 6"):
        profile.node(6)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (
            lambda p: prune(p, "time", 0.15),
            "main 0+10 100\n  compute 0+0 90\n    k1 20+0 20\n    k2 70+0 70",
        ),
        (lambda p: limit_depth(p, 2), "main 0+0 100\n  load 0+10 10\n  compute 0+90 90"),
        (
            lambda p: filter_nodes(p, include="^k1"),
            "main 0+0 100\n  load 0+0 10\n    k1 10+0 10\n  compute 0+70 90\n    k1 20+0 20",
        ),
        (lambda p: filter_nodes(p, exclude="comp"), "main 0+90 100\n  load 0+0 10\n    k1 10+0 10"),
        (lambda p: filter_nodes(p, include="none"), "(hidden) 0+100 100"),
        (flat, "k1 30+0 30\nk2 70+0 70"),
        (
            lambda p: bottom_up(p, "time"),
            "k1 0+0 30\n  load 0+0 10\n    main 10+0 10\n  compute 0+0 20\n    main 20+0 20\n"
            "k2 0+0 70\n  compute 0+0 70\n    main 70+0 70",
        ),
        (
            lambda p: merge([p, p]),
            "main 0+0 200\n  load 0+0 20\n    k1 20+0 20\n  compute 0+0 180\n"
            "    k1 40+0 40\n    k2 140+0 140",
        ),
    ],
    ids=["prune", "depth", "include", "exclude", "nothing", "flat", "bottom-up", "merge"],
)
def test_operations(operation: Callable[[Profile], Profile], expected: str) -> None:
    """What each operation makes of the example."""
    assert outline(operation(example())) == expected


def test_kernels_follow_their_nodes() -> None:
    """A node's kernel moves with it: to its new id, to its root bottom-up; gone with a cut."""
    profile = example()
    assert dict(filter_nodes(profile, exclude="load").tables.node_kernels) == {2: 0}
    assert dict(bottom_up(profile, "time").tables.node_kernels) == {0: 0}
    assert dict(limit_depth(profile, 2).tables.node_kernels) == {}
    merged = merge([profile, profile])
    assert (len(merged.tables.kernels), dict(merged.tables.node_kernels)) == (1, {3: 0, 4: 0})


def test_json() -> None:
    """The JSON form, whole."""
    assert to_json(limit_depth(example(), 2)) == {
        "schema": 1,
        "metrics": {
            "time": {"unit": "ns", "adds": "sum"},
            "time_min": {"unit": "ns", "adds": "min"},
        },
        "nodes": [
            {
                "id": 0,
                "parent": None,
                "kind": "frame",
                "name": "main",
                "location": {"file": "a.py", "line": 3, "function": "main"},
                "phase": None,
                "metrics": {
                    "time": {"own": 0, "total": 100},
                    "time_min": {"own": None, "total": 5.0},
                },
            },
            {
                "id": 1,
                "parent": 0,
                "kind": "scope",
                "name": "load",
                "location": None,
                "phase": None,
                "metrics": {
                    "time": {"own": 0, "total": 10},
                    "time_min": {"own": None, "total": 5.0},
                },
            },
            {
                "id": 2,
                "parent": 0,
                "kind": "scope",
                "name": "compute",
                "location": None,
                "phase": "forward",
                "metrics": {
                    "time": {"own": 0, "total": 90},
                    "time_min": {"own": None, "total": 10.0},
                },
            },
        ],
    }


def test_data_frame() -> None:
    """One row per node, totals and own values of each metric as columns."""
    frame = example().frame()
    assert list(frame.columns) == [
        *("parent", "depth", "kind", "name", "file", "line", "function", "phase"),
        *("time", "time own", "time_min", "time_min own"),
    ]
    assert frame.loc[frame.kind == "kernel", "time own"].tolist() == [10, 20, 70]
    assert frame.loc[0, "file"] == "a.py"


TIME = {"time": Metric("time", "ns")}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: build([], [0], [-1], {}, {}), "a symbol that does not exist"),
        (lambda: build([Symbol("scope", "a")], [0, 0], [1, -1], {}, {}), "before its parent"),
        (lambda: build([Symbol("thing", "a")], [0], [-1], {}, {}), "unknown kinds: thing"),
        (
            lambda: build([Symbol("scope", "a")], [0], [-1], TIME, {"time": [np.nan]}),
            "is a sum, but holds NaN",
        ),
        (
            lambda: build([Symbol("scope", "a")], [0], [-1], TIME, {"time": [1, 2]}),
            "a column that does not fit the tree",
        ),
        (
            lambda: build(
                [Symbol("scope", "a")], [0], [-1], TIME, {"time": [1]}, whole={"time": 2}
            ),
            "not conserved: the tree holds 1, the program had 2",
        ),
        (
            lambda: build([Symbol("scope", "a")], [0], [-1], {}, {}, tables=Tables((), {0: 0})),
            "node 0 refers to kernel 0",
        ),
    ],
)
def test_check(broken: Callable[[], Profile], message: str) -> None:
    """Each law, broken, is named."""
    with pytest.raises(InternalError, match=message):
        broken().check()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: prune(example(), "time_min", 0.1), "`time_min` has no shares to prune by"),
        (lambda: prune(example(), "time", 2), "a share is between 0 and 1, not 2"),
        (lambda: limit_depth(example(), 0), "a tree of depth 0 has no nodes"),
        (
            lambda: filter_nodes(example(), "a(b"),
            r"'a\(b' is not a regular expression: .*\n    a\(b\n",
        ),
        (lambda: Metric("", "ns"), "'' cannot be the name of a metric"),
        (lambda: Metric("a", "1", "max", inclusive=True), "cannot be inclusive"),
        (lambda: checked_value("loss", "0.1"), "`loss` is '0.1', which is not a number"),
        (lambda: checked_value("loss", float("nan")), "`loss` is nan"),
    ],
)
def test_misuse(wrong: Callable[[], object], message: str) -> None:
    """Wrong use gets one sentence."""
    with pytest.raises(UsageError, match=message):
        wrong()


def test_merge_refuses_contradictions() -> None:
    """Two profiles that mean different things by one name do not merge."""
    symbol = [Symbol("scope", "a")]
    a = build(symbol, [0], [-1], {"x": Metric("x", "J")}, {"x": [1]})
    b = build(symbol, [0], [-1], {"x": Metric("x", "W")}, {"x": [1]})
    with pytest.raises(UsageError, match="`x` is declared as W/sum, but is J/sum already"):
        merge([a, b])


def test_profiles_do_not_change() -> None:
    """Columns are read-only."""
    with pytest.raises(ValueError, match="read-only"):
        example().own["time"][0] = 1


def test_operations_work_on_columns_not_on_nodes(
    calls: Callable[[Callable[[], object]], int],
) -> None:
    """Total, prune and bottom-up of 100,000 nodes call less than a function for five nodes."""
    count = 100_000
    chance = np.random.default_rng(0)
    parents = np.maximum(np.arange(count) - 1 - chance.integers(0, 5_000, count), -1)
    symbols = [Symbol("frame", f"f{i}") for i in range(3_000)]
    profile = build(
        symbols,
        chance.integers(0, 3_000, count),
        parents,
        TIME,
        {"time": chance.integers(0, 99, count)},
    )
    for operation in (
        lambda: profile.total("time"),
        lambda: prune(profile, "time", 0.001),
        lambda: bottom_up(profile, "time"),
    ):
        assert calls(operation) < 20_000
