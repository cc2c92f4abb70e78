"""Differences of two profiles, their JSON form, and the expressions of `--fail-if`."""

from __future__ import annotations

import pytest

from tileprof.errors import Location, UsageError
from tileprof.profile import Profile, Tables, TreeBuilder, diff, diff_to_json, fail_if


def profile(**times: int) -> Profile:
    """Return a profile with kernels `times` (ns) under one scope `step`."""
    builder = TreeBuilder()
    step = builder.child(-1, "scope", "step")
    for name, time in times.items():
        kernel = builder.child(step, "kernel", name)
        builder.add(kernel, "time", time)
        builder.add(kernel, "count", 1)
        builder.add(kernel, "time_max", time)
    return builder.snapshot()


def test_diff_as_json() -> None:
    """Nodes match along their paths; a side without the node has 0 for sums and null for others."""
    form = diff_to_json(diff(profile(gone=10, gemm=100), profile(gemm=150, new=4)))
    assert form["metrics"] == {
        "time": {"unit": "ns", "adds": "sum"},
        "count": {"unit": "1", "adds": "sum"},
        "time_max": {"unit": "ns", "adds": "max"},
    }
    kept = ("id", "parent", "name", "status")
    assert [[node[key] for key in kept] for node in form["nodes"]] == [
        [0, None, "step", "both"],
        [1, 0, "gone", "old"],
        [2, 0, "gemm", "both"],
        [3, 0, "new", "new"],
    ]
    assert [node["metrics"]["time"] for node in form["nodes"]] == [
        {"old": 110, "new": 154, "delta": 44, "ratio": 1.4},
        {"old": 10, "new": 0, "delta": -10, "ratio": 0.0},
        {"old": 100, "new": 150, "delta": 50, "ratio": 1.5},
        {"old": 0, "new": 4, "delta": 4, "ratio": None},
    ]
    assert form["nodes"][3] == {
        "id": 3,
        "parent": 0,
        "kind": "kernel",
        "name": "new",
        "location": None,
        "phase": None,
        "status": "new",
        "metrics": {
            "time": {"old": 0, "new": 4, "delta": 4, "ratio": None},
            "count": {"old": 0, "new": 1, "delta": 1, "ratio": None},
            "time_max": {"old": None, "new": 4.0, "delta": None, "ratio": None},
        },
    }


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("time > +5%", True),
        ("time > +50%", False),
        ("time >= +50%", True),
        ("time < -10%", False),
        ("time > +40ns", True),
        ("time > +0.05us", False),
        ("time > +1ms", False),
        ("time>149", True),
        ("time > 0.1 µs", True),
        ("count > 1", False),
        ("count <= 1", True),
        ("count >= 1e0 and time > +60%", False),
        ("count > 1 or time > +5%", True),
        ('"time_max" > +49', True),
        ("count > -1k", True),
        ("guarded > +0", False),
        ("guarded < 1", True),
    ],
)
def test_fail_if(expression: str, expected: bool) -> None:
    """A sign compares the change, no sign the new value; from 100 ns to 150 ns here."""
    assert fail_if(diff(profile(gemm=100), profile(gemm=150)), expression) is expected


def test_a_time_that_neither_has_is_no_gate() -> None:
    """It would let everything pass, as `time` does of programs that ran on no device."""
    builder = TreeBuilder()
    builder.add(builder.child(-1, "scope", "main"), "cpu_time", 5)
    both = builder.snapshot()
    with pytest.raises(UsageError, match="neither profile has a metric `time`") as error:
        fail_if(diff(both, both), "time > +5%")
    assert "Did you mean `cpu_time`?" in str(error.value)
    assert not fail_if(diff(both, both), "cpu_time > +5% or bytes > +1MB")


def test_percent_of_nothing() -> None:
    """From nothing to something is more than any percentage, from nothing to nothing none."""
    assert fail_if(diff(profile(), profile(a=1)), "time > +1000%")
    assert not fail_if(diff(profile(a=1), profile(a=1)), "time > +0%")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "expected the name of a metric\n    \n    ^"),
        ("time", "expected `>`, `>=`, `<` or `<=`\n    time\n        ^"),
        ("time > ", "expected a number, like 10, +5% or +2ms\n    time > \n           ^"),
        ("time > 5%", "a percentage is a change: write +5%\n    time > 5%\n           ^"),
        (
            "time > +5 kB",
            "`kB` is not a unit of `time`\n    time > +5 kB\n              ^\nUse one of ns,",
        ),
        (
            "tme > +5%",
            "neither profile has a metric `tme`\n    tme > +5%\n    ^\n"
            "Did you mean `time`? Known: time, count, ",
        ),
        (
            "time > 1 & count > 2",
            "expected `and`, `or` or the end\n    time > 1 & count > 2\n             ^",
        ),
        ("time > 1 and", "expected the name of a metric\n    time > 1 and\n                ^"),
    ],
)
def test_malformed_expressions(expression: str, message: str) -> None:
    """Every mistake gets a sentence and a caret under its place."""
    both = profile(a=1)
    with pytest.raises(UsageError) as error:
        fail_if(diff(both, both), expression)
    assert str(error.value).startswith(message)


BEFORE = "import x\n\ndef work():\n    slow()\n    gone()\n    fast()\n\nwork()\n"
AFTER = "# A comment.\nimport x\n\ndef work():\n    slow(1)\n    fast()\n    new()\n\nwork()\n"


def program(file: str, text: str, lines: dict[str, int]) -> Profile:
    """Return a profile whose frame `work` of a file calls at lines, which take 1 ns each."""
    builder = TreeBuilder()
    for name, line in lines.items():
        place = Location(file, line, function="work")
        builder.add(
            builder.child(builder.child(-1, "frame", "work", place), "op", name), "count", 1
        )
    return builder.snapshot(Tables(sources={file: text}))


@pytest.mark.parametrize("folder", ["/old", "/new"])
def test_lines_that_moved_and_folders_are_matched(folder: str) -> None:
    """Above an edit and below it; a changed line is the same, a removed one is none of the new."""
    old = program(f"{folder}/p/train.py", BEFORE, {"slow": 4, "gone": 5, "fast": 6})
    new = program("/new/p/train.py", AFTER, {"slow": 5, "fast": 6, "new": 7})
    found = diff(old, new)
    status = dict(zip(found.new.names, found.status))
    assert (status["slow"], status["fast"]) == ("both", "both")
    assert (status["gone"], status["new"]) == ("old", "new")
    assert [found.old.whole["count"], found.new.whole["count"]] == [3, 3]
    frames = [
        (node.location.line, node.location.file, status)
        for node, status in zip(map(found.new.node, range(len(found))), found.status)
        if node.kind == "frame" and node.location is not None
    ]
    there = "/new/p/train.py"
    assert sorted(frames) == sorted(
        [
            (5, there, "both"),
            (5, f"{folder}/p/train.py", "old"),
            (6, there, "both"),
            (7, there, "new"),
        ]
    )


def test_files_of_one_name_are_not_taken_for_each_other() -> None:
    """Where a name says it of two files alike, neither is the old one."""
    old = program("/a/m.py", BEFORE, {"slow": 4})
    builder = TreeBuilder()
    for folder in ("b", "c"):
        place = Location(f"/{folder}/m.py", 4, function="work")
        builder.add(builder.child(-1, "frame", "work", place), "count", 1)
    assert diff(old, builder.snapshot()).status.count("both") == 0
