"""Text in terminal cells: measuring, cutting in the middle, colour, and the two character sets.

In: names as a profile holds them: any text.  Out: text that is safe to print and of known width.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile.storage.plain_text import CONTROL, clean_text, escape

_NARROW = re.compile(r"[\x00-\u02ff\u2010-\u2027\u2500-\u259f]*")  # Latin, dashes, boxes, blocks
_EIGHTHS = " ▏▎▍▌▋▊▉"
OWN_STYLE = r"\x1b\[(?:[012]|[12];3[0-7]|3[0-7])m"
"""Colours, bold and dim, as `paint` writes them. None of them hides text."""
_UNSAFE = re.compile(f"({OWN_STYLE})|(?![\\n\\t]|\\r\\n)[{CONTROL}]")
"""Our own styles are the group, so that the replacement can keep them."""


Steps: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that draw a view; every one is a single cell wide."""

    branch: str
    last: str
    through: str
    blank: str
    ellipsis: str
    dash: str
    micro: str
    full: str
    part: str
    arrow: str
    closed: str
    """Mark of a line below which lines are folded away; `open` is that of one whose lines show."""
    open: str


UNICODE = Glyphs("├─ ", "└─ ", "│  ", "   ", "…", "–", "µ", "█", _EIGHTHS, "→", "▸ ", "▾ ")
ASCII = Glyphs("|- ", "`- ", "|  ", "   ", "~", "-", "u", "#", " ", ">", "+ ", "- ")


def clean(text: str, glyphs: Glyphs) -> str:
    """Return `text` with control and direction characters escaped, in ASCII where `glyphs` are."""
    return clean_text(plain(text, glyphs))


def safe(text: str, color: bool) -> str:
    """Return text that a terminal shows as it is: without control characters but our own styles.

    Lines and tabs stay; `color` says whether styles may be in it at all.
    """
    return _UNSAFE.sub(lambda found: found[0] if found[1] and color else escape(found), text)


def plain(text: str, glyphs: Glyphs) -> str:
    """`text` as it is, or where `glyphs` are ASCII in that, with escapes for what it lacks."""
    if glyphs is not ASCII or text.isascii():
        return text
    known = text.replace("µ", glyphs.micro).replace("–", glyphs.dash).replace("…", "...")
    known = known.replace("±", "+-")
    return known.encode("ascii", "backslashreplace").decode()


def encodable(text: str) -> str:
    """Return `text` as UTF-8 can hold it: file names may carry bytes that are no text."""
    return text.encode("utf-8", "backslashreplace").decode()


def width_of(text: str) -> int:
    """Return how many terminal cells `text` takes; wide East Asian characters take two."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int, glyphs: Glyphs) -> str:
    """Return `text` in at most `width` cells, cut in the middle: both ends of a name matter."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return glyphs.ellipsis[:width]
    head = _take(text, (width - 1) // 2)
    tail = _take(text[::-1], width - 1 - width_of(head))[::-1]
    return f"{head}{glyphs.ellipsis}{tail}"


def fit(text: str, width: int, glyphs: Glyphs) -> str:
    """Return `text` in at most `width` cells, cut at its end."""
    if width_of(text) <= width:
        return text
    return _take(text, width - 1) + glyphs.ellipsis if width > 0 else ""


def _take(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _cell(character)
        if used > width:
            return text[:position]
    return text


def bar(share: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar of `share` (0 to 1) in `width` cells; anything above 0 shows a mark."""
    filled = int(bar_steps(np.array([share]), width, glyphs)[0])
    whole, rest = divmod(filled, len(glyphs.part))
    return (glyphs.full * whole + (glyphs.part[rest] if rest else "")).ljust(width)


def bar_steps(shares: npt.NDArray[np.float64], width: int, glyphs: Glyphs) -> Steps:
    """Return how much of each share's bar is drawn, in parts of a cell."""
    held = np.clip(np.nan_to_num(shares), 0.0, 1.0)
    return np.maximum(np.rint(held * width * len(glyphs.part)), held > 0).astype(np.int64)


_HEAT = ((0.5, "1;31"), (0.2, "31"), (0.05, "33"), (0.01, "32"))
_COLD = "2"


def heat(share: float) -> str:
    """Return the colour of a share, from dim below 1 % to bold red from 50 % on."""
    return next((style for floor, style in _HEAT if share >= floor), _COLD)


def heat_steps(shares: npt.NDArray[np.float64]) -> Steps:
    """Return for each share how many limits it reaches of those at which the colour changes."""
    return np.searchsorted([limit for limit, _ in _HEAT[::-1]], np.nan_to_num(shares), "right")


def paint(text: str, style: str, color: bool) -> str:
    """Return `text` in an ANSI style such as `31`; unchanged where colours are off."""
    return f"\x1b[{style}m{text}\x1b[0m" if color and style and text.strip() else text
