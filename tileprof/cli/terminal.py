"""Output to the terminal, and what it can show.

Everything that a command prints goes through `show` or `write`. So this is the place where text is
made safe to print (`viewer.text.safe`), and where a stream that is closed, full or no longer read
is dealt with. `progress` shows what is under way on standard error, where that is a terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from tileprof.errors import OutputError
from tileprof.once import Guard
from tileprof.progress import listen, tasks
from tileprof.runtime import hooks
from tileprof.viewer.text import safe

_PATIENCE_S = 1.0
"""Seconds before a running task is shown, so that tasks of two seconds are still seen."""
_REFRESH_S = 0.1


def has_color(stream: TextIO | None) -> bool:
    """Return whether colours are wanted: a terminal, and `NO_COLOR` is not set."""
    if not is_terminal(stream):
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def has_unicode(stream: TextIO | None) -> bool:
    """Return whether bars and branches can be drawn with more than ASCII."""
    try:
        "─█".encode(_encoding(stream))
    except UnicodeEncodeError:
        return False
    return True


def width(stream: TextIO | None) -> int:
    """Return the columns of the terminal; 120 where the output is no terminal."""
    return shutil.get_terminal_size((120, 24)).columns if is_terminal(stream) else 120


def show(text: str, stream: TextIO | None = None) -> None:
    """Write a result, at once; characters that the stream cannot encode are replaced.

    Raises OutputError where standard output is closed or cannot be written, and BrokenPipeError
    where its reader is gone. What cannot be written to standard error is dropped.
    """
    _told.hide()
    stream = stream or sys.stdout
    encoding = _encoding(stream)
    shown = safe(text, has_color(stream)).encode(encoding, errors="replace").decode(encoding)
    _to(stream, lambda held: held.write(shown))


def write(content: bytes) -> None:
    """Write a result that is no text to standard output, at once; errors are those of `show`."""
    _told.hide()
    _to(sys.stdout, lambda held: held.buffer.write(content))


def complain(message: str) -> None:
    """Write a message to standard error; it is dropped where that cannot be written."""
    if sys.stderr is not None:
        show(f"tileprof: {message}\n", sys.stderr)


@contextmanager
def progress(apart: bool = False) -> Iterator[None]:
    """Show tasks under way until the end of the block, where somebody looks at standard error.

    `apart`: on a line below what a program has written there, whose last line may be open.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield
        return
    with listen(lambda: _told.follow(apart)):
        try:
            yield
        finally:
            _told.hide()


@contextmanager
def given_away() -> Iterator[None]:
    """Draw no line of what is under way until the end of the block, for somebody else draws."""
    _told.is_away = True
    _told.hide()
    try:
        yield
    finally:
        _told.is_away = False


class _Told:
    """The line that tells what is under way; a thread of its own draws it."""

    def __init__(self) -> None:
        self._guard = Guard()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self.is_away = False
        """Whether another part of the program draws on the terminal."""

    def follow(self, apart: bool) -> None:
        """Begin the line where tasks are under way, and take it away after the last."""
        with self._guard:
            if not tasks or self.is_away:
                self.hide()
            elif self._thread is None:
                self._over = threading.Event()
                self._thread = threading.Thread(target=_draw, args=(self._over, apart), daemon=True)
                self._thread.start()
                hooks.own_threads.add(self._thread.ident or 0)

    def hide(self) -> None:
        """Take the line away, until a task begins or ends."""
        with self._guard:
            if self._thread is not None:
                self._over.set()
                self._thread.join()
                hooks.own_threads.discard(self._thread.ident or 0)
                self._thread = None


_told = _Told()


def _draw(over: threading.Event, apart: bool) -> None:
    """Draw the line of the innermost task until it is over; nothing where that is soon."""
    if over.wait(_PATIENCE_S):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    columns = (
        SpinnerColumn("dots" if has_unicode(sys.stderr) else "line"),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TimeElapsedColumn(),
    )
    line = Progress(*columns, console=console, auto_refresh=False, transient=True,
                    redirect_stdout=False, redirect_stderr=False)  # fmt: skip
    with suppress(OSError, ValueError):
        if apart:
            console.print()
        with line:
            shown = line.add_task("", total=None, visible=False)
            while True:
                if tasks:
                    task = tasks[-1]
                    what, total = safe(task.what, color=False), task.total or None
                    line.update(
                        shown, description=what, total=total, completed=task.done, visible=True
                    )
                line.refresh()
                if over.wait(_REFRESH_S):
                    return


def close_broken() -> None:
    """Turn streams that cannot be written away, so that Python does not complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _to(stream: TextIO | None, writing: Callable[[TextIO], object]) -> None:
    """Write and flush."""
    # Python has None for a stream that was closed before it began, as by `>&-`.
    if stream is None or stream.closed:
        raise OutputError(
            "standard output is closed, so the result cannot be printed",
            hint="Open it, or send it to a file or to /dev/null.",
        )
    try:
        writing(stream)
        stream.flush()
    except OSError as error:
        close_broken()
        if stream is sys.stderr:
            return
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(
            f"standard output cannot be written: {error.strerror or error}",
            hint="The output written so far is incomplete. Free space, or choose another place.",
        ) from None


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether somebody sees what is written to a stream."""
    return stream is not None and not stream.closed and stream.isatty()


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"
