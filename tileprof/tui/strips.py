"""Lines of text with the viewer's colours as strips, which Textual puts on the screen.

In: a line as `viewer` makes it.  Out: a strip of a width, safe to show.
"""

from __future__ import annotations

import functools
import re

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tileprof.viewer.text import OWN_STYLE, safe

CHOSEN = Style(reverse=True)
"""Style of the chosen line, which stands out in any colours that a terminal has, and without."""
_STYLED = re.compile(f"({OWN_STYLE})")
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def strip_of(line: str, width: int, chosen: bool = False) -> Strip:
    """Return a line, which may have styles of `viewer.text.paint`, in exactly `width` cells."""
    style, segments = Style.null(), list[Segment]()
    for part in _STYLED.split(safe(line.replace("\t", "    "), color=True)):
        if part.startswith("\x1b"):
            style = _style(part[2:-1])
        elif part:
            # Colours of single words would be backgrounds, and a bar its own opposite.
            segments.append(Segment(part, CHOSEN if chosen else style))
    strip = Strip(segments).adjust_cell_length(width)
    return strip.apply_style(CHOSEN) if chosen else strip


@functools.cache
def _style(codes: str) -> Style:
    """Return the style of an escape sequence's numbers, such as `1;31`."""
    color, bold, dim = None, False, False
    for code in codes.split(";"):
        bold, dim = bold or code == "1", dim or code == "2"
        if code.startswith("3"):
            color = _COLORS[int(code[1])]
    return Style(color=color, bold=bold or None, dim=dim or None)
