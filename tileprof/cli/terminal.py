"""What the terminal can show."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

__all__ = ["has_color", "has_unicode", "width"]


def has_color(stream: TextIO) -> bool:
    """Whether colours are wanted: a terminal, and `NO_COLOR` is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def has_unicode(stream: TextIO) -> bool:
    """Whether bars and branches can be drawn with more than ASCII."""
    try:
        "─█".encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def width(stream: TextIO) -> int:
    """Columns of the terminal; 120 where the output is no terminal."""
    return shutil.get_terminal_size((120, 24)).columns if stream.isatty() else 120


def show(text: str) -> None:
    """Print a result; characters that the stream cannot encode are replaced."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
