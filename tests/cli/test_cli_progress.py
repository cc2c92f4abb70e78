"""Progress: a line on standard error that tells what is under way, only where somebody looks."""

from __future__ import annotations

import io
import threading
import time
from contextlib import redirect_stderr

import pytest

from tileprof.cli import terminal
from tileprof.progress import tasks, working
from tileprof.runtime import hooks


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal, on which the line is drawn at once."""
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def wait_for(text: str, stream: io.StringIO) -> None:
    """Return when a text was drawn; fail where that takes long."""
    until = time.monotonic() + 20
    while text not in stream.getvalue():
        assert time.monotonic() < until, stream.getvalue()
        time.sleep(0.01)


def test_the_innermost_task_is_shown(shown: io.StringIO) -> None:
    """With its name as it is now, without control characters, and gone before anything is said."""
    with redirect_stderr(shown), terminal.progress(), working("outer"):
        wait_for("outer", shown)
        with working("in[b]ner\x1b[2J", total=4) as task:
            wait_for("in[b]ner\\x1b[2J", shown)
            task.tell("the next")
            wait_for("the next", shown)
        before = shown.getvalue()
        terminal.complain("said")
        drawn = shown.getvalue().removeprefix(before)
        assert drawn.endswith("\x1b[2Ktileprof: said\n")
    assert not tasks


def test_the_line_of_a_program_is_apart(shown: io.StringIO) -> None:
    """A program may have left a line open, which is not drawn over."""
    shown.write("loading …")
    with redirect_stderr(shown), terminal.progress(apart=True), working("compiling"):
        wait_for("compiling", shown)
    assert shown.getvalue().startswith("loading …\n")


def test_its_thread_is_no_part_of_a_program(shown: io.StringIO) -> None:
    """While it runs it is among our own threads, and it ends with the last task."""
    before = threading.active_count(), set(hooks.own_threads)
    with redirect_stderr(shown), terminal.progress():
        with working("outer"):
            assert len(hooks.own_threads) == len(before[1]) + 1
        assert (threading.active_count(), hooks.own_threads) == before


@pytest.mark.parametrize("term", ["dumb", "pipe"])
def test_nothing_is_drawn_elsewhere(
    shown: io.StringIO, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    """Neither in a pipe nor where the terminal cannot take a line back."""
    monkeypatch.setenv("TERM", term)
    if term == "pipe":
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    with redirect_stderr(shown), terminal.progress(), working("outer"):
        assert not hooks.own_threads
        time.sleep(0.05)
    assert shown.getvalue() == ""


def test_what_is_soon_done_is_not_shown(
    shown: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quick task ends at once, without a word, however long the patience is."""
    monkeypatch.setattr(terminal, "_PATIENCE_S", 60.0)
    began = time.monotonic()
    with redirect_stderr(shown), terminal.progress(), working("outer"):
        pass
    assert time.monotonic() - began < 30
    assert shown.getvalue() == ""
