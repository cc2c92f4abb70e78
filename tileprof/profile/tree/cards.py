"""A short account of an object for a prompt or a notebook: what it is, its greatest parts, more.

In: a title, facts, some rows, and where to read on; any text.  Out: ten lines of text at most, or
HTML that stands for itself and in which every text is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from tileprof.profile.storage.plain_text import clean_text

MOST_ROWS = 5
"""Rows of a card: with title, facts and the last line it has ten lines at most."""
_WIDTH = 88
_CELL = 60
"""Most characters of a text in a card's row."""
_LONGEST = 2_000
"""The same where all of a card is shown."""
_STYLE = (
    "font:13px/1.5 system-ui,sans-serif;border:1px solid #8884;border-radius:6px;"
    "padding:8px 12px;max-width:60em;overflow-x:auto"
)
_CELLS = "padding:0 14px 0 0;text-align:left;border:0;background:none"


def short(text: str, width: int = _CELL) -> str:
    """Return text without control characters, in at most so many characters."""
    shown = clean_text(text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


@dataclass(frozen=True, slots=True)
class Card:
    """A short description of an object."""

    title: str
    facts: Sequence[str] = ()
    """At most two sentences, one per line."""
    rows: Sequence[tuple[str, ...]] = ()
    """The greatest parts; of more than `MOST_ROWS`, the first ones are shown."""
    more: str = ""
    """Call that shows all of it."""

    def text(self) -> str:
        """Return the card in ten lines at most."""
        rows = [tuple(short(cell) for cell in row) for row in self.rows[:MOST_ROWS]]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [short(self.title, _WIDTH), *(short(each, _WIDTH) for each in self.facts[:2])]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths))
            lines.append(f"  {'  '.join(cells)}".rstrip())
        return "\n".join([*lines, *([short(self.more, 2 * _WIDTH)] if self.more else [])])

    def html(self, whole: bool = False) -> str:
        """Return the card as one element with its styles in it; `whole` leaves nothing out."""
        most, width = (len(self.rows), _LONGEST) if whole else (MOST_ROWS, _CELL)
        parts = [f"<div><b>{_text(self.title, _WIDTH)}</b></div>"]
        parts += [f"<div>{_text(each, _WIDTH)}</div>" for each in self.facts[:2]]
        if self.rows:
            rows = "".join(f"<tr>{_row(row, width)}</tr>" for row in self.rows[:most])
            parts.append(f'<table style="border-collapse:collapse;margin:4px 0">{rows}</table>')
        if self.more:
            parts.append(f'<div style="opacity:.7">{_text(self.more, 2 * _WIDTH)}</div>')
        return f'<div style="{_STYLE}">{"".join(parts)}</div>'


def _row(row: tuple[str, ...], width: int) -> str:
    return "".join(f'<td style="{_CELLS}">{_text(cell, width)}</td>' for cell in row)


def _text(text: str, width: int = _CELL) -> str:
    return html.escape(short(text, width))
