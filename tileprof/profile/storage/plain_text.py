r"""Text of a file without what a terminal would obey: control, escape and direction characters.

Each such character becomes its escape in Python's spelling (`\x1b`), so it can be seen and does
nothing.  Texts of several lines keep line ends, tabs and form feeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_UNSEEN = r"\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
CONTROL = r"\x00-\x1f" + _UNSEEN
"""C0 and C1 controls, invisible characters, direction overrides and halves of surrogate pairs, as
they stand between the brackets of a regular expression."""

_CONTROL = re.compile(f"[{CONTROL}]")
_CONTROL_IN_TEXT = re.compile(rf"\r(?!\n)|[\x00-\x08\x0b\x0e-\x1f{_UNSEEN}]")


def clean_text(text: str) -> str:
    """Return a text of one line with control characters escaped."""
    return text if text.isprintable() else _CONTROL.sub(escape, text)


def clean_lines(texts: Sequence[str]) -> list[str]:
    """Return texts of one line each with control characters escaped."""
    return list(texts) if _is_printable(texts) else [_CONTROL.sub(escape, each) for each in texts]


def clean_texts(texts: Sequence[str]) -> list[str]:
    """Return texts of several lines with all control characters but line ends and tabs escaped."""
    if _is_printable(each.replace("\n", "").replace("\t", "") for each in texts):
        return list(texts)
    return [_CONTROL_IN_TEXT.sub(escape, each) for each in texts]


def _is_printable(texts: Iterable[str]) -> bool:
    # Nearly every file passes here; this test is many times as fast as a regular expression.
    return all(map(str.isprintable, texts))


def escape(match: re.Match[str]) -> str:
    """Return what was found as Python writes it in a string: `\\x1b`."""
    return match[0].encode("unicode_escape").decode()
