"""Where results go: a stream that is full, closed or no longer read, and hostile names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_process import environment, started
from tests.viewer.samples import node, profile_of
from tileprof.cli import COMMANDS, main
from tileprof.profile import save
from tileprof.viewer.text import safe

pytestmark = pytest.mark.usefixtures("forked")

KERNEL = """
import tileprof, tileprof.lang as T

@tileprof.jit
def double(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(32):
            Y[i] = X[i] * 2
    return Y
"""
ENDINGS = [
    ["--help"],
    ["--version"],
    *([name, "--help"] for name in COMMANDS),
    ["view", "sample.tprof"],
    ["view", "--json", "sample.tprof"],
    ["view", "--csv", "sample.tprof"],
    ["report", "sample.tprof"],
    ["report", "--json", "sample.tprof"],
    ["diff", "sample.tprof", "sample.tprof"],
    ["export", "sample.tprof", "--to", "collapsed", "-o", "-"],
    ["compile", "prog.py:double", "--set", "N=32", "--emit", "ir"],
    ["doctor"],
]

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@needs_dev_full
@pytest.mark.parametrize("arguments", ENDINGS, ids=" ".join)
def test_a_full_disk_is_a_sentence(
    sample: str, write: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Every command ends with exit code 2 and says what could not be written, and why."""
    write(prog=KERNEL)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(arguments)
    told = capsys.readouterr().err
    assert code == 2
    assert "standard output cannot be written: No space left on device" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("arguments", ENDINGS, ids=" ".join)
def test_a_closed_output_is_a_sentence(
    sample: str, write: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """As by `>&-`: Python has no stream there."""
    write(prog=KERNEL)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(arguments) == 2
    assert "standard output is closed" in capsys.readouterr().err


@needs_dev_full
def test_nothing_is_said_at_exit_of_a_full_disk(sample: str) -> None:
    """What is left in Python's buffers is not written again when the process ends."""
    with open("/dev/full", "wb") as full:
        running = started("-m", "tileprof", "view", sample, stdout=full, stderr=subprocess.PIPE)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 2
    assert told.startswith(b"tileprof: standard output cannot be written: No space left on device")
    assert told.count(b"\n") == 2


@pytest.mark.parametrize("arguments", [["view", "sample.tprof"], ["vew"]], ids=" ".join)
def test_messages_that_cannot_be_written_are_dropped(
    sample: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed standard error changes no exit code."""
    expected = main(arguments)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(arguments) == expected


@needs_dev_full
def test_a_program_keeps_its_exit_code_where_its_tree_cannot_be_printed(
    folder: Path, write: Any
) -> None:
    """`tileprof run prog.py >&- 2>/dev/full` writes the profile."""
    write(prog="raise SystemExit(4)")
    command = f"{sys.executable} -m tileprof run prog.py >&- 2>/dev/full"
    done = subprocess.run(command, shell=True, env=environment(), timeout=60, check=False)
    assert done.returncode == 4
    assert (folder / "prog.tprof").exists()


HOSTILE = "a\x1b]0;owned\x07\x1b[8m\x9b2J\u202eb\r\x08"


def test_names_cannot_send_control_characters(cli: Any, folder: Path) -> None:
    """No command prints an escape of a name, of a file or of an option."""
    save(profile_of(node("kernel", HOSTILE, f"{HOSTILE}.py:3", time=5, count=1)), "bad.tprof")
    for arguments in (
        ["view", "bad.tprof"],
        ["view", "--flat", "bad.tprof"],
        ["view", "--lines", "bad.tprof"],
        ["report", "bad.tprof"],
        ["report", "--for", "compiler", "bad.tprof"],
        ["diff", "bad.tprof", "bad.tprof"],
        ["view", f"{HOSTILE}.tprof"],
        ["view", "bad.tprof", "-m", HOSTILE],
        [HOSTILE],
    ):
        found = cli(*arguments)
        printed = found.out + found.err
        assert printed
        assert not set(printed) & set("\x1b\x07\x08\x9b\u202e\r"), arguments


def test_only_our_own_styles_pass() -> None:
    """Colours and bold of ours stay where colours are wanted; hidden text never passes."""
    ours, theirs = "\x1b[1;31mhot\x1b[0m", "\x1b[8mhidden\x1b[5mblink"
    assert safe(f"{ours}\t1\n2\r\n", color=True) == f"{ours}\t1\n2\r\n"
    assert safe(theirs, color=True) == r"\x1b[8mhidden\x1b[5mblink"
    assert safe(ours, color=False) == r"\x1b[1;31mhot\x1b[0m"
    assert os.linesep in safe(f"a{os.linesep}b", color=False)
