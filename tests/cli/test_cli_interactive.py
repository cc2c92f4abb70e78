"""`view` and `diff --interactive`, `run --live`: what is asked before, and what is left after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from tests.cli.test_cli_process import started, until
from tileprof.cli import live, terminal
from tileprof.profiler.control import addresses
from tileprof.tui import Browser, OneProfile, TwoProfiles, Update

pytestmark = pytest.mark.usefixtures("forked")

PROGRAM = """\
import os, sys, time, tileprof

print("begins", flush=True)
for number in range(300):
    while number == 299 and not os.path.exists("seen"):
        time.sleep(0.01)
    with tileprof.scope("request"):
        time.sleep(0.001)
print("ends")
print("to standard error", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> list[Browser]:
    """A terminal, on which views are not shown but kept."""
    shown: list[Browser] = []
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    monkeypatch.setattr(Browser, "run", lambda view: shown.append(view))
    return shown


def test_views_begin_with_what_was_asked_for(
    cli: Any, sample: str, at_terminal: list[Browser]
) -> None:
    """Options of `view` and `diff` are what the view begins with."""
    assert cli("view", sample, "--interactive", "--flat", "-m", "cpu_time", "-t", "3").code == 0
    assert cli("diff", sample, sample, "--interactive", "--frames", "all").code == 0
    one, two = at_terminal
    assert isinstance(one._subject, OneProfile)
    assert (one._options.mode, one._options.metrics) == ("flat", ("cpu_time",))
    assert one._choices.threshold == 3
    assert isinstance(two._subject, TwoProfiles)
    assert two._options.frames == "all"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["view", "--interactive", "--json"], "`--interactive` and `--json` are two views"),
        (["view", "--interactive", "--sass"], "`--interactive` and `--sass` are two views"),
        (["diff", "--interactive", "-d", "3"], "`--interactive` and `-d` exclude each other"),
    ],
)
def test_options_of_two_views_are_refused(
    cli: Any, sample: str, at_terminal: list[Browser], arguments: list[str], message: str
) -> None:
    """One sentence, and nothing is shown."""
    files = [sample] * (2 if arguments[0] == "diff" else 1)
    found = cli(arguments[0], *files, *arguments[1:])
    assert found.code == 2
    assert message in found.err
    assert not at_terminal


def test_without_a_terminal_or_textual_it_says_what_to_do(
    cli: Any, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a program is started nor a file is read."""
    Path("serve.py").touch()
    for command in (["view", "no.tprof", "--interactive"], ["run", "--live", "serve.py"]):
        found = cli(*command)
        assert found.code == 2
        assert "needs a terminal" in found.err
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    monkeypatch.setitem(sys.modules, "textual", None)
    found = cli("view", sample, "--interactive")
    assert found.code == 2
    assert "textual is not installed" in found.err
    assert 'pip install "tileprof[tui]"' in found.err


@pytest.mark.spread("before its end")
@pytest.mark.skipif(not addresses.SUPPORTED, reason="needs a system with users")
@pytest.mark.parametrize("leaves", ["after its end", "before its end"])
def test_a_program_is_looked_at_while_it_runs(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    """Snapshots grow; its output and its exit code are what they would be without."""
    (folder / "serve.py").write_text(PROGRAM)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    updates: list[Update] = []

    def look(subject: OneProfile, options: object, program: live.LiveProgram) -> None:
        """Take all news, as the view does."""
        assert not len(subject.profile)
        while not updates or not updates[-1].is_over:
            updates.append(program.next())
            if updates[-1].subject is not None:
                (folder / "seen").touch()
            if leaves == "before its end" and updates[-1].subject is not None:
                return
        assert [line for line in program.output() if line] == [
            "begins", "ends", "to standard error",
        ]  # fmt: skip

    monkeypatch.setattr(live, "browse", look)
    found = cli("run", "--live", "serve.py")
    assert found.code == 3
    assert "begins\nends\n" in found.out
    assert "wrote serve.tprof; see it again with `tileprof view serve.tprof`" in found.err
    profiles = [each.subject.profile for each in updates if each.subject is not None]
    counts = [count(profile) for profile in profiles]
    assert counts == sorted(counts)
    assert counts[0] < 300
    if leaves == "after its end":
        assert counts[-1] == 300
        assert updates[-1].status == "ended with exit code 3; serve.tprof"


@pytest.mark.skipif(not addresses.SUPPORTED, reason="needs a system with users")
def test_a_program_under_control_is_watched_until_it_ends(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tree grows; it is left alone."""
    (folder / "serve.py").write_text(PROGRAM)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    command = ["-m", "tileprof", "run", "--control", "--quiet", "serve.py"]
    process = started(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen: list[int] = []

    def look(subject: OneProfile, options: object, program: live.WatchedProgram) -> None:
        """Take all news, as the view does."""
        assert not program.interrupt()
        update = Update("", subject)
        while not update.is_over:
            seen.append(count(update.subject.profile))  # type: ignore[union-attr]
            (folder / "seen").touch()
            update = program.next()

    monkeypatch.setattr(live, "browse", look)
    until((folder / f"tileprof/{process.pid}.sock").exists)
    assert cli("ctl", str(process.pid), "watch").code == 0
    assert process.wait(60) == 3
    assert seen == sorted(seen)
    assert seen
    refused = cli("ctl", str(process.pid), "watch")
    assert refused.code == 2
    assert "there is no process" in refused.err


def count(profile: Any) -> int:
    """How often the scope was entered."""
    # The first snapshot may come before the program has begun.
    return sum(int(profile.own["count"][node]) for node in profile.find("request", "scope"))


def test_live_and_paused_exclude_each_other(
    cli: Any, folder: Path, at_terminal: list[Browser]
) -> None:
    """Nothing would be seen."""
    (folder / "serve.py").write_text("")
    found = cli("run", "--live", "--paused", "serve.py")
    assert found.code == 2
    assert "`--paused` records nothing" in found.err
