"""Lines of a report: sentences, and fields with a name at the left.

In: any text.  Out: lines of a limited width in cells, safe to print, with or without colours.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from tileprof.viewer.grid import MINIMUM_WIDTH
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, fit, paint

_INDENT = "  "
_NAME = 9
"""Cells of a field's name, with the gap after it."""
_SPACE = "\xa0"
_PLAIN = str.maketrans({"×": "x", "→": "->", "≥": ">=", "≤": "<="})


@dataclass(frozen=True, slots=True)
class Paper:
    """Width, characters and colours with which a report is written."""

    width: int
    glyphs: Glyphs
    color: bool

    @staticmethod
    def of(width: int, color: bool, unicode: bool) -> Paper:
        """Return paper for a terminal; narrow ones count as 40 cells wide."""
        return Paper(max(width, MINIMUM_WIDTH), UNICODE if unicode else ASCII, color)

    def line(self, text: str, style: str = "") -> str:
        """Return one line, cut at its end."""
        return paint(fit(self.text(text), self.width, self.glyphs), style, self.color)

    def sentence(self, text: str, style: str = "", indent: str = "") -> list[str]:
        """Wrap a text to as many lines as it needs."""
        return self._wrapped(text, style, indent, indent)

    def beside(self, head: str, text: str) -> list[str]:
        """Wrap a text beside a head, which is as wide in each line as it is in the first."""
        blank = " " * len(head)
        wrapped = self._wrapped(text, "", blank, blank)
        return [head + line[len(head) :] if at == 0 else line for at, line in enumerate(wrapped)]

    def field(self, name: str, text: str, style: str = "") -> list[str]:
        """Return a name, then text beside it."""
        head = f"{_INDENT}{name:<{_NAME}}"
        first, *rest = self._wrapped(text, "", head, " " * len(head)) or [head.rstrip()]
        painted = [line[: len(head)] + paint(line[len(head) :], style, self.color) for line in rest]
        name_painted = paint(first[: len(head)], "2", self.color)
        return [name_painted + paint(first[len(head) :], style, self.color), *painted]

    def text(self, text: str) -> str:
        """Return a text that is safe to print, in the characters that there are."""
        return clean(text.translate(_PLAIN) if self.glyphs is ASCII else text, self.glyphs)

    def _wrapped(self, text: str, style: str, first: str, later: str) -> list[str]:
        # Units stay with their numbers.
        glued = re.sub(r"(?<=\d) (?=[^\W\d])", _SPACE, self.text(text.replace(_SPACE, " ")))
        lines = textwrap.wrap(
            glued, self.width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
        )
        # Characters may be two cells wide.
        fitting = [fit(line.replace(_SPACE, " "), self.width, self.glyphs) for line in lines]
        return [paint(line, style, self.color) for line in fitting]
