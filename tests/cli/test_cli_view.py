"""`view`, `diff` and `export`: shapes for scripts, gates, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

from tests.viewer.samples import matmul, node, profile_of
from tileprof.cli import terminal
from tileprof.profile import KINDS, Tables, from_literal, load, merge, save


def check_view_document(document: Any) -> None:
    """Hold `view --json` to the contract: these keys, these types, nothing else."""
    assert list(document) == ["schema", "metrics", "nodes"]
    assert document["schema"] == 1
    metrics = document["metrics"]
    for name, metric in metrics.items():
        assert isinstance(name, str)
        assert list(metric) == ["unit", "adds"]
        assert all(isinstance(text, str) for text in metric.values())
    known: set[int] = set()
    for each in document["nodes"]:
        assert list(each) == ["id", "parent", "kind", "name", "location", "phase", "metrics"]
        assert type(each["id"]) is int
        assert each["parent"] is None or each["parent"] in known, "parents come first"
        assert each["id"] not in known
        known.add(each["id"])
        assert each["kind"] in KINDS
        assert isinstance(each["name"], str)
        check_location(each["location"])
        assert each["phase"] in ("forward", "backward", None)
        assert set(each["metrics"]) <= set(metrics)
        for value in each["metrics"].values():
            assert list(value) == ["own", "total"]
            assert all(v is None or type(v) in (int, float) for v in value.values())


def check_location(location: Any) -> None:
    """A place is null or has a file, a line and a function."""
    if location is not None:
        assert list(location) == ["file", "line", "function"]
        assert [type(v) for v in location.values()] == [str, int, str]


@pytest.mark.parametrize(
    "options",
    ["", "-m time,count", "-i multiply", "-e load", "-t 10", "-d 2", "--bottom-up", "--flat",
     "-m gflop/s", "--lines"],
)  # fmt: skip
def test_json_has_the_shape_of_the_contract(cli: Any, sample: str, options: str) -> None:
    """One document of schema 1, whatever is selected; strict JSON, without NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = cli("view", sample, "--json", *options.split())
    assert (found.code, found.err) == (0, "")
    document = json.loads(found.out, parse_constant=refuse)
    if options == "--lines":
        assert (document.pop("samples"), document.pop("recordings")) == (0, [])
        lines = document.pop("lines")
        assert {"file", "line", "text", "metrics", "samples", "stalls"} == set(lines[0])
        own = sum(node["metrics"].get("time", {}).get("own", 0) for node in document["nodes"])
        assert sum(line["metrics"]["time"] for line in lines) == own > 0
    check_view_document(document)
    assert document["nodes"]


def test_json_of_a_program_that_ran(cli: Any, write: Any) -> None:
    """What `run` writes has the shape too, kernels and sites included."""
    write(prog=PROGRAM)
    assert cli("run", "--quiet", "prog.py").code == 0
    document = json.loads(cli("view", "prog.tprof", "--json").out)
    check_view_document(document)
    kinds = {each["kind"] for each in document["nodes"]}
    assert {"frame", "scope", "kernel", "site"} <= kinds
    assert {"time", "cpu_time", "count", "flops", "bytes"} <= set(document["metrics"])


PROGRAM = """
    import numpy as np
    import tileprof
    import tileprof.lang as T

    @tileprof.jit
    def twice(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 32), threads=32) as b:
            with T.scope("double"):
                for i in T.Parallel(32):
                    B[b * 32 + i] = A[b * 32 + i] * 2
        return B

    with tileprof.scope("work"):
        assert twice(np.ones(100, np.float32)).sum() == 200
"""


def test_csv_has_a_row_a_node(cli: Any, sample: str) -> None:
    """The rows are those of JSON; a spreadsheet reads them."""
    rows = list(csv.DictReader(io.StringIO(cli("view", sample, "--csv").out)))
    nodes = json.loads(cli("view", sample, "--json").out)["nodes"]
    assert [(row["id"], row["name"]) for row in rows] == [(str(n["id"]), n["name"]) for n in nodes]
    assert [float(row["time_total"]) for row in rows] == [
        n["metrics"]["time"]["total"] for n in nodes
    ]


@pytest.mark.parametrize("options", ["", "--bottom-up", "--flat", "--lines", "-m count -d 2"])
def test_text_is_plain_where_it_goes_to_a_pipe(cli: Any, sample: str, options: str) -> None:
    """No colour codes in a file; every view ends in a newline."""
    found = cli("view", sample, *options.split())
    assert (found.code, found.err) == (0, "")
    assert "\x1b" not in found.out
    assert found.out.startswith("train.py --steps 3, NVIDIA H200\n")
    assert found.out.endswith("\n")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.parametrize(
    ("name", "value", "colored"),
    [("NO_COLOR", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)],
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, colored: bool
) -> None:
    """`NO_COLOR` that says anything turns them off."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    assert terminal.has_color(Terminal()) is colored
    assert not terminal.has_color(io.StringIO())


def test_a_terminal_gets_colours(cli: Any, sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree on a terminal has colour codes, its JSON has none."""
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    cli("view", sample)
    assert "\x1b[" in screen.getvalue()


def test_ascii_streams_get_ascii(cli: Any, sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches and bars are drawn with what the stream can encode."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert cli("view", sample).code == 0
    text = raw.getvalue().decode("ascii")
    assert "matmul" in text
    assert "?" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-m nonsense", "the profile has no metric `nonsense`\nIt has: time, "),
        ("--sass -m time", "`-m` is for nodes of the tree\nWith --sass use -i, -e and -t.\n"),
        ("--sass -d 2", "`-d` is for nodes of the tree\n"),
        (
            "-i (",
            "'(' is not a regular expression: missing ), unterminated subpattern\n    (\n    ^\n",
        ),
        ("-e a[", "'a[' is not a regular expression: unterminated character set\n    a[\n     ^\n"),
        ("-t 101", "the threshold 101 is not a percentage\n"),
        ("-t -1", "the threshold -1 is not a percentage\n"),
        ("-d 0", "a tree of depth 0 has no nodes\n"),
        ("--flat --bottom-up", "argument --bottom-up: not allowed with argument --flat\n"),
        ("--json --csv", "argument --csv: not allowed with argument --json\n"),
        ("--group kernel --flat", "`--group` and `--flat` are two views\nChoose one.\n"),
        ("--group rank --bottom-up", "`--group` and `--bottom-up` are two views\n"),
        ("--group stream", "the profile does not know the stream of any kernel or copy\n"),
        (
            "--group module",
            "the profile has no forward pass of a module\nTry `--group line` or `--group thr",
        ),
        ("--group tread", "argument --group: invalid choice: 'tread' (choose module, phase, "),
        ("--lines --csv", "`--lines` has no `--csv`\nUse `--json`.\n"),
        ("--sass --csv", "`--sass` has no `--csv`\nUse `--json`.\n"),
    ],
)
def test_wrong_choices(cli: Any, sample: str, options: str, message: str) -> None:
    """Nothing is shown; the sentence says what is wrong and what there is."""
    found = cli("view", sample, *options.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


def test_nothing_that_matches_is_no_mistake(cli: Any, sample: str) -> None:
    """A filter that leaves nothing says what it left out."""
    found = cli("view", sample, "-i", "nothing_like_this")
    assert found.code == 0
    assert "Nothing is left by -i 'nothing_like_this'." in found.out
    assert "left out by -i," in found.out


def test_several_files_are_added_up(cli: Any, folder: Path, sample: str) -> None:
    """Times of a path are summed over the files; a timeline takes one file."""
    (folder / "again.tprof").write_bytes(Path(sample).read_bytes())

    def own(*files: str) -> list[float]:
        nodes = json.loads(cli("view", *files, "--json").out)["nodes"]
        times = (each["metrics"].get("time", {}).get("own") for each in nodes)
        return sorted(time for time in times if time)

    assert own(sample, "again.tprof") == pytest.approx([2 * each for each in own(sample)])
    assert cli("view", sample, "again.tprof").out.startswith("2 profiles, added up.\n")
    wrong = cli("view", sample, "again.tprof", "--timeline", "k")
    assert (wrong.code, "Give one FILE." in wrong.err) == (2, True)


def test_ranks_have_a_node_each(cli: Any, folder: Path, sample: str) -> None:
    """A rank is read from the file's name or from the recording; other files are named instead."""
    content = Path(sample).read_bytes()
    others = ["step.rank0.tprof", "step.rank0.pid7.tprof", "a/sample.tprof"]
    (folder / "a").mkdir()
    for name in others:
        (folder / name).write_bytes(content)
    launched = replace(load(sample), tables=Tables(provenance={"rank": "3", "world_size": "4"}))
    save(launched, folder / "renamed.tprof")
    files = [*others, sample, "renamed.tprof"]
    nodes = json.loads(cli("view", *files, "--group", "rank", "--json").out)["nodes"]
    tops = {
        each["name"]: each["metrics"]["time"]["total"] for each in nodes if each["parent"] is None
    }
    alone = tops["rank 3"]
    assert tops == {
        "rank 0": 2 * alone, "a/sample.tprof": alone, "sample.tprof": alone, "rank 3": alone
    }  # fmt: skip
    text = cli("view", *files, "--group", "rank", "-d", "1").out
    assert text.startswith("5 profiles, a node for each rank.\n")
    assert "rank 0" in text


@pytest.mark.parametrize("group", ["module", "phase", "kernel", "line", "rank"])
def test_groups_as_data(cli: Any, sample: str, group: str) -> None:
    """JSON keeps its contract, and CSV has the same totals."""
    document = json.loads(cli("view", sample, "--group", group, "--json").out)
    check_view_document(document)
    total = sum(
        each["metrics"].get("time", {"total": 0})["total"]
        for each in document["nodes"]
        if each["parent"] is None
    )
    assert total == load(sample).whole["time"]
    rows = list(csv.DictReader(io.StringIO(cli("view", sample, "--group", group, "--csv").out)))
    assert sum(float(row["time_own"] or 0) for row in rows) == total


@pytest.fixture
def slower(folder: Path) -> str:
    """The sample again, and one more kernel of 1 ms."""
    extra = node("kernel", "extra", "/w/kernels.py:90", time=1_000_000, count=1)
    with_extra = profile_of(extra)
    save(merge([matmul(), with_extra]), folder / "slower.tprof")
    return "slower.tprof"


def test_a_diff_shows_what_changed(cli: Any, sample: str, slower: str) -> None:
    """What is only in the new profile is marked; equal profiles say that nothing differs."""
    found = cli("diff", sample, slower)
    assert (found.code, found.err) == (0, "")
    assert "extra" in found.out
    flat = cli("diff", sample, slower, "-d", "0")
    assert flat.err == "tileprof: a tree of depth 0 has no nodes\nUse a depth of 1 or more.\n"
    same = cli("diff", sample, sample)
    assert same.code == 0
    assert "There is no difference" in same.out


def test_a_diff_as_json(cli: Any, sample: str, slower: str) -> None:
    """One document of schema 1 with the metrics as in `view --json`."""
    found = cli("diff", sample, slower, "--json")
    document = json.loads(found.out)
    assert (found.code, document["schema"]) == (0, 1)
    assert document["metrics"]["time"] == {"unit": "ns", "adds": "sum"}
    (extra,) = [each for each in document["nodes"] if each["name"] == "extra"]
    assert (extra["status"], extra["metrics"]["time"]["delta"]) == ("new", 1_000_000)


@pytest.mark.parametrize(
    ("gate", "fails"),
    [
        ("time > +5%", True),
        ("time > +1ms", False),
        ("time > +999us", True),
        ("time > +1000%", False),
        ("time < -5%", False),
        ("count > 1", True),
        ("time > +1000% or count > 1", True),
        ("time > +1000% and count > 1", False),
    ],
)
def test_gates(cli: Any, sample: str, slower: str, gate: str, fails: bool) -> None:
    """The difference is shown; where the expression holds, it is named and the exit code is 1."""
    found = cli("diff", sample, slower, "--fail-if", gate)
    assert found.code == int(fails)
    assert found.err == (f"tileprof: the gate failed: {gate}\n" if fails else "")
    assert "extra" in found.out
    as_data = cli("diff", sample, slower, "--json", "--fail-if", gate)
    assert (as_data.code, as_data.err) == (found.code, found.err)
    json.loads(as_data.out)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("time >> 5", "expected a number, like 10, +5% or +2ms\n    time >> 5\n          ^\n"),
        ("", "expected the name of a metric\n    \n    ^\n"),
        ("foo > 1", "neither profile has a metric `foo`\n    foo > 1\n    ^\nKnown: "),
        ("time > 5%", "a percentage is a change: write +5%\n    time > 5%\n           ^\n"),
        ("time > +5 kg", "`kg` is not a unit of `time`\n    time > +5 kg\n              ^\n"),
        ("time > 1 xor", "`xor` is not a unit of `time`\n    time > 1 xor\n             ^\n"),
    ],
)
def test_gates_that_cannot_be_read(
    cli: Any, sample: str, slower: str, gate: str, message: str
) -> None:
    """A typing mistake is not a failed gate: exit code 2, a caret at the place, no output."""
    found = cli("diff", sample, slower, "--fail-if", gate)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


def test_a_diff_of_a_metric_that_is_not_there(cli: Any, sample: str) -> None:
    """The metrics there are are named."""
    found = cli("diff", sample, sample, "-m", "foo")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("tileprof: the profile has no metric `foo`\nIt has: ")


READ: dict[str, Callable[[str], Any]] = {
    "chrome": lambda text: json.loads(text)["traceEvents"],
    "speedscope": lambda text: json.loads(text)["profiles"],
    "collapsed": lambda text: [int(line.rpartition(" ")[2]) for line in text.splitlines()],
    "hatchet": lambda text: list(from_literal(json.loads(text)).roots()),
}


@pytest.mark.parametrize("name", READ)
def test_exports(cli: Any, folder: Path, sample: str, name: str) -> None:
    """Each format is written to the file, or to standard output for `-`."""
    found = cli("export", sample, "--to", name, "-o", "out")
    assert (found.code, found.out, found.err) == (0, "", "")
    text = (folder / "out").read_text()
    assert READ[name](text)
    assert cli("export", sample, "--to", name, "-o", "-").out == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--to svg -o x", "there is no export format `svg`\nThe formats are: chrome, "),
        ("--to chrome -o no/where", "no/where cannot be written: No such file or directory\n"),
        ("--to chrome -o .", ". cannot be written: Is a directory\n"),
    ],
)
def test_exports_that_cannot_be(cli: Any, sample: str, options: str, message: str) -> None:
    """An unknown format and an unwritable place are one sentence each."""
    found = cli("export", sample, *options.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")
    assert os.listdir(".") == [sample]


def test_parquet_is_a_folder_of_all_ranks(cli: Any, folder: Path, sample: str) -> None:
    """Several profiles go into one folder, in two calls as in one; each is called as its file."""
    for rank in "012":
        (folder / f"step.rank{rank}.tprof").write_bytes((folder / sample).read_bytes())
    together = ("step.rank0.tprof", "step.rank1.tprof", "--to", "parquet", "-o", "made/out")
    for arguments in (together, ("step.rank2.tprof", "--to", "parquet", "-o", "made/out")):
        found = cli("export", *arguments)
        assert (found.code, found.out, found.err) == (0, "", "")
    table = pandas.read_parquet(folder / "made" / "out" / "nodes")
    assert table.groupby("rank")["time"].sum().tolist() == [load(sample).whole["time"]] * 3
    assert sorted(os.listdir("made/out")) == [
        "counter_series", "instruction_counts", "kernels", "nodes", "pc_samples", "provenance",
        "remarks", "sites", "sources",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("b.tprof --to chrome -o x", "`--to chrome` takes one FILE, not 2\n"),
        ("--to parquet -o -", "- is not a folder, and `--to parquet` writes one\n"),
        ("--to parquet -o sample.tprof", "sample.tprof is not a folder, and `--to parquet` writes"),
        ("--to parquet -o sample.tprof/x", "sample.tprof/x cannot be written: Not a directory\n"),
        (
            "elsewhere/sample.tprof --to parquet -o x",
            "sample.tprof and elsewhere/sample.tprof would",
        ),
        ("none.tprof --to parquet -o x", "none.tprof does not exist\n"),
    ],
)
def test_folders_that_cannot_be(cli: Any, sample: str, options: str, message: str) -> None:
    """One sentence and a way out; nothing is written."""
    before = Path(sample).read_bytes()
    found = cli("export", sample, *options.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")
    assert os.listdir(".") == [sample]
    assert Path(sample).read_bytes() == before
