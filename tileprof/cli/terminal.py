"""What the terminal can show, and writing to it."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from typing import TextIO

__all__ = ["close_broken", "complain", "has_color", "has_unicode", "show", "width", "write"]


def has_color(stream: TextIO) -> bool:
    """Whether colours are wanted: a terminal, and `NO_COLOR` is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def has_unicode(stream: TextIO) -> bool:
    """Whether bars and branches can be drawn with more than ASCII."""
    try:
        "─█".encode(_encoding(stream))
    except UnicodeEncodeError:
        return False
    return True


def width(stream: TextIO) -> int:
    """Columns of the terminal; 120 where the output is no terminal."""
    return shutil.get_terminal_size((120, 24)).columns if stream.isatty() else 120


def show(text: str, stream: TextIO | None = None) -> None:
    """Write a result, at once; characters that the stream cannot encode are replaced."""
    stream = stream or sys.stdout
    encoding = _encoding(stream)
    stream.write(text.encode(encoding, errors="replace").decode(encoding))
    stream.flush()


def write(content: bytes) -> None:
    """Write a result that is no text to standard output, at once."""
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def complain(message: str) -> None:
    """Write a message to standard error; nobody is told where nobody can be."""
    try:
        show(f"tileprof: {message}\n", sys.stderr)
    except BrokenPipeError:
        close_broken()


def close_broken() -> None:
    """Turn streams whose reader is gone away, so that Python does not complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"
