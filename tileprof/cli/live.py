"""`tileprof run --live` and `tileprof ctl PID watch`: the tree of a program while it runs.

In: the command line of a recording under control, or the number of a process that is.  Out:
snapshots for the interactive view; after it, the program's output and its exit code.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tileprof.cli import terminal
from tileprof.cli.interactive import browse
from tileprof.errors import TileprofError, UsageError
from tileprof.profile import Profile, TreeBuilder, load
from tileprof.profiler.control.client import ask
from tileprof.profiler.control.messages import Request, State
from tileprof.profiler.options import destination
from tileprof.tui import OneProfile, Update
from tileprof.viewer import ViewOptions
from tileprof.viewer.text import safe

_PERIOD_S = 1.0
"""Seconds between two snapshots, at least."""
_SHARE = 0.1
"""Share of the time that making and reading snapshots may take, at most."""
_LOOK_S = 0.2
"""Seconds between two looks at whether the program still runs."""
_TAIL = 1 << 16
"""Bytes of output that the view shows."""


class Snapshots:
    """Snapshots of a program under control, not more often than its recording can bear."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid, self._file = pid, folder / "snapshot.tprof"
        self._due = time.monotonic() + _LOOK_S
        self.count = 0
        self.said = "starting"
        """Words on what the program does."""
        self.is_stopped = False
        """True once the reader has left."""

    def wait(self, is_over: Callable[[], bool]) -> bool:
        """Wait until the next snapshot is due; False where the program ends, or the reader leaves,
        before."""
        while not self.is_stopped and not is_over():
            if time.monotonic() >= self._due:
                return True
            time.sleep(_LOOK_S)
        return False

    def take(self) -> OneProfile:
        """Return a snapshot; TileprofError where the program does not give one, or not yet."""
        began = time.monotonic()
        self._due = began + _LOOK_S
        state = ask(self._pid, Request("snapshot", file=str(self._file)))
        profile = load(self._file)
        self.count += 1
        self.said = _doing(state, self.count)
        now = time.monotonic()
        self._due = now + max(_PERIOD_S, (now - began) / _SHARE)
        return OneProfile(profile)


class WatchedProgram:
    """A program that somebody else has started; the view's feed until it ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._folder = Path(tempfile.mkdtemp(prefix="tileprof-live-"))
        self._snapshots = Snapshots(pid, self._folder)

    def first(self) -> OneProfile:
        """Return a snapshot at once; UsageError where the program does not listen."""
        return self._snapshots.take()

    def next(self) -> Update:
        """Return the next snapshot, or that there is no other."""
        if not self._snapshots.wait(lambda: False):
            return Update(self._snapshots.said, is_over=True)
        try:
            subject = self._snapshots.take()
        except TileprofError as error:
            return Update(error.message, is_over=True)
        return Update(self._snapshots.said, subject)

    def output(self) -> Sequence[str]:
        """Say where to look."""
        return [f"What process {self._pid} prints is where it was started."]

    def interrupt(self) -> bool:
        """Leave the program alone."""
        return False

    def stop(self) -> None:
        """Give out no further snapshot."""
        self._snapshots.is_stopped = True

    def close(self) -> None:
        """Remove temporary files."""
        shutil.rmtree(self._folder, ignore_errors=True)


class LiveProgram:
    """A program that is recorded in a process of its own; the view's feed."""

    def __init__(self, arguments: Sequence[str], path: Path) -> None:
        self._path, self._began = path, time.time()
        self._folder = Path(tempfile.mkdtemp(prefix="tileprof-live-"))
        self._log: IO[bytes] = (self._folder / "output").open("wb+")
        # A program whose output goes to a file or a pipe writes it there itself.
        out = self._log if terminal.is_terminal(sys.stdout) else None
        command = [sys.executable, "-m", "tileprof", "run", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=self._log
        )
        self._snapshots = Snapshots(self.process.pid, self._folder)

    # -- the feed

    def next(self) -> Update:
        """Return the next snapshot, or the finished profile."""
        if not self._snapshots.wait(lambda: self.process.poll() is not None):
            code = self.process.poll()
            left = Update(self._snapshots.said, is_over=True)
            return left if code is None else self._finished(code)
        try:
            subject = self._snapshots.take()
        except TileprofError:
            # It does not listen yet, or no longer; its end comes with the next look.
            return Update(self._snapshots.said)
        return Update(self._snapshots.said, subject)

    def _finished(self, code: int) -> Update:
        said = f"ended with exit code {code}" if code >= 0 else f"ended by signal {-code}"
        if not self.is_written():
            return Update(f"{said}; nothing was recorded", is_over=True)
        try:
            return Update(f"{said}; {self.name}", OneProfile(load(self._path)), is_over=True)
        except TileprofError as error:
            return Update(f"{said}; {error.message}", is_over=True)

    @property
    def name(self) -> Path:
        """The profile's path, from the current folder where it is in there."""
        here = Path.cwd()
        return self._path.relative_to(here) if self._path.is_relative_to(here) else self._path

    def is_written(self) -> bool:
        """Return whether the program has left a profile."""
        with suppress(OSError):
            return self._path.stat().st_mtime >= self._began - 0.1
        return False

    def output(self) -> Sequence[str]:
        """Return the last lines that the program has printed."""
        with (self._folder / "output").open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(size - _TAIL, 0))
            text = log.read().decode(errors="replace")
        # Of a line that is written again and again, as one of progress, the last state counts.
        return [safe(each.rstrip("\r").rpartition("\r")[2], False) for each in text.split("\n")]

    def interrupt(self) -> bool:
        """Interrupt the program, as Ctrl-C does in a terminal."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        return True

    def stop(self) -> None:
        """Give out no further snapshot."""
        self._snapshots.is_stopped = True

    # -- after the view

    def see_to_its_end(self) -> int:
        """Print what the program has printed and still prints, and return its exit code."""
        stream = sys.stdout if terminal.is_terminal(sys.stdout) else sys.stderr
        shown = 0
        while True:
            # In this order, so that nothing of what it prints last is missed.
            code = self.process.poll()
            shown += _copy(self._folder / "output", shown, stream.buffer)
            if code is not None:
                return code if code >= 0 else 128 - code
            with suppress(KeyboardInterrupt):  # the program has got it too
                time.sleep(_LOOK_S)

    def close(self) -> None:
        """Remove temporary files."""
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _doing(state: State, snapshots: int) -> str:
    does = "recording" if state.recording else "paused"
    return f"{does}: {state.recorded_s:.1f} s, snapshot {snapshots}"


def _copy(file: Path, begin: int, to: IO[bytes]) -> int:
    with file.open("rb") as log:
        log.seek(begin)
        part = log.read()
    if part:
        to.write(part)
        to.flush()
    return len(part)


def show_live(arguments: Sequence[str], output: str) -> int:
    """Run a program, show its tree while it grows, and return the program's exit code.

    `arguments` are those of `tileprof run` for a recording under control.
    """
    program = LiveProgram(arguments, destination(output))
    try:
        # A fault of the view, which has been printed, must not cost the recording.
        with suppress(SystemExit):
            browse(OneProfile(_empty()), ViewOptions(), program)
        if program.process.poll() is None:
            terminal.complain("the program goes on; Ctrl-C interrupts it")
        code = program.see_to_its_end()
        if program.is_written():
            shown = program.name
            terminal.complain(f"wrote {shown}; see it again with `tileprof view {shown}`")
        return code
    finally:
        program.close()


def watch(pid: int) -> None:
    """Show the tree of a program under control while it grows."""
    program = WatchedProgram(pid)
    try:
        browse(program.first(), ViewOptions(), program)
    finally:
        program.close()


def _empty() -> Profile:
    return TreeBuilder().snapshot()


def check_live(paused: bool) -> None:
    """Raise UsageError where a program could not be looked at while it runs."""
    from tileprof.profiler.control.addresses import checked_folder

    if paused:
        raise UsageError(
            "`--live` shows what is recorded, and `--paused` records nothing",
            hint="Leave out one of them.",
        )
    checked_folder()
