"""Commands, options and their help; wrong use is one message and exit code 2."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileprof
from tileprof.cli import COMMANDS


def test_the_version(cli: Any) -> None:
    """`--version` prints it and nothing else."""
    found = cli("--version")
    assert (found.code, found.out, found.err) == (0, f"tileprof {tileprof.__version__}\n", "")


def test_no_arguments_show_what_there_is(cli: Any, golden: Callable[..., None]) -> None:
    """Without a command the help goes to standard error; asked for, to standard output."""
    alone, asked = cli(), cli("--help")
    assert (alone.code, alone.out) == (2, "")
    assert (asked.code, asked.out, asked.err) == (0, alone.err, "")
    golden(asked.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(cli: Any, golden: Callable[..., None], command: str) -> None:
    """`--help` says what each argument is, and ends well."""
    found = cli(command, "--help")
    assert (found.code, found.err) == (0, "")
    golden(found.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vew"], "there is no command `vew`\nDid you mean `view`? See `tileprof --help`."),
        (
            ["train.py", "--fast"],
            "there is no command `train.py`\n"
            "Did you mean `tileprof run train.py`? See `tileprof --help`.",
        ),
        (
            ["a.tprof"],
            "there is no command `a.tprof`\n"
            "Did you mean `tileprof view a.tprof`? See `tileprof --help`.",
        ),
        (["frobnicate"], "there is no command `frobnicate`\nSee `tileprof --help`."),
        (
            ["--verzion"],
            "there is no option `--verzion`\nDid you mean `--version`? See `tileprof --help`.",
        ),
        (
            ["view", "--hlep"],
            "there is no option `--hlep`\nDid you mean `--help`? See `tileprof view --help`.",
        ),
        (
            ["export", "--tp=chrome", "-o", "x"],
            "there is no option `--tp`\nDid you mean `--to`? See `tileprof export --help`.",
        ),
        (
            ["report", "--for", "autor", "x.tprof"],
            "argument --for: invalid choice: 'autor' (choose author or compiler). "
            "Did you mean `author`?\n"
            "See `tileprof report --help`.",
        ),
        (
            ["view", "x.tprof", "--jsn"],
            "there is no option `--jsn`\nDid you mean `--json`? See `tileprof view --help`.",
        ),
        (
            ["run", "--qiet=1", "x.py"],
            "there is no option `--qiet`\nDid you mean `--quiet`? See `tileprof run --help`.",
        ),
        (["run", "--debug=3", "x.py"], "`--debug` takes no value\nSee `tileprof run --help`."),
        (
            ["inspect", "gone.cubin"],
            "cannot read gone.cubin: No such file or directory\nGive the path of a .cubin file.",
        ),
        (["diff", "a", "b", "c"], "`c` is one argument too many\nSee `tileprof diff --help`."),
        (["doctor", "now"], "`now` is one argument too many\nSee `tileprof doctor --help`."),
        (
            ["view", "x", "-t", "much"],
            "argument -t: `much` is not a number\nSee `tileprof view --help`.",
        ),
        (
            ["view", "x", "-d", "1.5"],
            "argument -d: `1.5` is not a whole number\nSee `tileprof view --help`.",
        ),
        (
            ["report", "x", "--for", "me"],
            "argument --for: invalid choice: 'me' (choose author or compiler)\n"
            "See `tileprof report --help`.",
        ),
        (
            ["run", "--context", "all", "x.py"],
            "argument --context: invalid choice: 'all' (choose scopes, python, full or native)\n"
            "See `tileprof run --help`.",
        ),
        (
            ["compile", "x.py:k", "--instrument", "all"],
            "argument --instrument: invalid choice: 'all' "
            "(choose off, scopes, stages, ops or sample)\n"
            "See `tileprof compile --help`.",
        ),
        (
            ["run", "--instrument", "all", "x.py"],
            "instrument 'all' is unknown\n"
            "Use one of off, scopes, stages, ops, sample, sample=PERIOD.",
        ),
        (
            ["run", "--inside", "blocks=16,keep=newest", "x.py"],
            "inside: keep is 'newest'\nGive first, last or both.",
        ),
        (
            ["run", "--metrics", "sm", "--pc-sampling", "x.py"],
            "`--metrics` and `--pc-sampling` exclude each other in one process\n"
            "Run the program twice, once with each.",
        ),
        (
            ["run", "--pc-sampling=5", "x.py"],
            "pc_sampling cannot be '5'\nGive cycles, a number from 32 to 2,147,483,648.",
        ),
        (
            ["run", "--pm-sampling=5", "x.py"],
            "pm_sampling is '5'\nGive µs between two samples, from 20 to 1,000,000.",
        ),
        (
            ["run", "--pm-sampling", "--metrics", "a b", "x.py"],
            "'a b' is not the name of a metric\nUse memory, tensor, occupancy, links, or a metric "
            "of "
            "CUPTI's like dram__bytes_read.sum.",
        ),
        (
            ["run", "--pm-sampling", "--pc-sampling", "x.py"],
            "`--pm-sampling` and `--pc-sampling` exclude each other in one process\n"
            "Run the program twice, once with each.",
        ),
    ],
)
def test_wrong_use(cli: Any, arguments: list[str], message: str) -> None:
    """One sentence, the way out, and exit code 2."""
    found = cli(*arguments)
    assert (found.code, found.out, found.err) == (2, "", f"tileprof: {message}\n")


@pytest.mark.parametrize(
    "arguments", [["view"], ["report"], ["diff", "a"], ["export", "a"], ["compile"]]
)
def test_missing_arguments(cli: Any, arguments: list[str]) -> None:
    """What is missing is named, and where the help is."""
    found = cli(*arguments)
    assert (found.code, found.out) == (2, "")
    assert "required" in found.err
    assert found.err.endswith(f"See `tileprof {arguments[0]} --help`.\n")


def _future(path: Path) -> None:
    database = sqlite3.connect(path)
    (version,) = database.execute("pragma user_version").fetchone()
    database.execute(f"pragma user_version = {version + 1}")
    database.commit()
    database.close()


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_future, "sample.tprof has version"),
        (_shorten, "sample.tprof is cut short"),
        (lambda path: path.write_bytes(b""), "sample.tprof is empty"),
        (lambda path: path.write_text("hello\n"), "sample.tprof is not a tileprof profile"),
        (lambda path: path.unlink(), "sample.tprof does not exist"),
        (lambda path: (path.unlink(), path.mkdir()), "sample.tprof is a folder"),
    ],
    ids=["future", "short", "empty", "foreign", "missing", "folder"],
)
def test_a_file_that_is_no_profile(
    cli: Any, folder: Path, sample: str, spoil: Callable[[Path], Any], sentence: str
) -> None:
    """Every command that reads says the same one sentence with a way out."""
    (folder / "good.tprof").write_bytes((folder / sample).read_bytes())
    spoil(folder / sample)
    for arguments in (
        ["view", sample],
        ["view", sample, "--json"],
        ["report", sample],
        ["report", "good.tprof", sample, "--json"],
        ["diff", sample, "good.tprof"],
        ["diff", "good.tprof", sample],
        ["export", sample, "--to", "chrome", "-o", "out.json"],
    ):
        found = cli(*arguments)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith(f"tileprof: {sentence}")
        assert len(found.err.splitlines()) == 2, "a sentence and a way out"
    assert not (folder / "out.json").exists()


def test_a_fault_of_ours_asks_for_a_report(
    cli: Any, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is nobody's mistake but ours shows where it happened and asks to be told of."""
    monkeypatch.setattr("tileprof.viewer.render_view", lambda *_, **__: 1 / 0)
    found = cli("view", sample)
    assert (found.code, found.out) == (1, "")
    assert "ZeroDivisionError" in found.err
    assert found.err.endswith(
        "This is a fault of tileprof. Please report it, with the lines above and the command.\n"
    )
