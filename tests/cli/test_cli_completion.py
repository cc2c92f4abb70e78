"""`tileprof completion`: what shells complete by its scripts."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tileprof.cli import COMMANDS
from tileprof.cli.completion import options


@pytest.fixture
def script(cli: Any, tmp_path: Path) -> Path:
    """The script for bash in a file."""
    path = tmp_path / "completion.bash"
    path.write_text(cli("completion", "bash").out)
    return path


def completed(script: Path, line: str) -> list[str]:
    """Words that bash offers for the last word of a line; it is empty after a blank."""
    words = line.split(" ")
    commands = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({shlex.join(words)}); "
        f"COMP_CWORD={len(words) - 1}; _tileprof; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tileprof re", ["report"]),
        ("tileprof --v", ["--version"]),
        ("tileprof report --s", ["--sarif"]),
        ("tileprof report a.tprof --for ", ["author", "compiler"]),
        ("tileprof run --context na", ["native"]),
        ("tileprof cache s", ["size"]),
        ("tileprof cache size --j", ["--json"]),
        ("tileprof view ", []),
        ("tileprof frobnicate --j", []),
    ],
)
def test_bash_completes_the_last_word(script: Path, line: str, words: list[str]) -> None:
    """Commands, options, words of options and of arguments; nothing leaves files to the shell."""
    assert completed(script, line) == words


def test_bash_knows_all_commands_and_their_options(script: Path) -> None:
    """None is left out."""
    offered = set(completed(script, "tileprof "))
    assert offered == {*COMMANDS, "--help", "--version"}
    for name, command in COMMANDS.items():
        known = {flag for each in options(command) for flag in each.flags}
        assert "--help" in known
        assert set(completed(script, f"tileprof {name} -")) == known


def test_fish_knows_all_commands_and_their_options(cli: Any) -> None:
    """Each line is a `complete` of its own, with the words of options."""
    lines = [shlex.split(line) for line in cli("completion", "fish").out.splitlines()]
    assert all(line[:3] == ["complete", "-c", "tileprof"] for line in lines)
    first = {line[line.index("-a") + 1] for line in lines if "__fish_use_subcommand" in line}
    assert first == set(COMMANDS)
    report = [line for line in lines if "__fish_seen_subcommand_from report" in line]
    assert {line[line.index("-l") + 1] for line in report if "-l" in line} >= {"for", "sarif"}
    (readers,) = (line for line in report if "for" in line)
    assert readers[readers.index("-a") + 1] == "author compiler"


def test_an_unknown_shell_is_wrong_use(cli: Any) -> None:
    """With those that are known."""
    found = cli("completion", "tcsh")
    assert (found.code, "choose bash, zsh or fish" in found.err) == (2, True)
