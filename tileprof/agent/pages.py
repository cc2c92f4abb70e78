"""Long texts in pages that fit an agent's context."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.errors import UsageError

MOST_TOKENS = 2000
"""Largest number of tokens of one answer, counted as `tokens` does."""
_FOOTER = 60
"""Tokens that the line below a page may take."""
_TOKEN = re.compile(r"[A-Za-z]{1,5}|\d{1,3}|\s+|[^A-Za-z\d\s]")
_LONGEST_PIECE = 400
"""Characters after which a line is broken, so that no line is longer than a page."""


def tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens.

    Letters count in fives, digits in threes, signs one by one, and each run of white space once.
    For 23 pages of all tools, a tokeniser of 65,000 tokens that merges runs of spaces (Claude's of
    2023) needs 55 to 82 % of it. One that does not merge them (GPT-2's) needs up to 2.5 times as
    many for wide tables.
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def page_of(text: str, page: int = 1) -> str:
    """Return a page of a text, with a last line that says how to get the next one.

    Pages are cut between lines. UsageError for a page that does not exist.
    """
    pages = list(_pages(text))
    if not 1 <= page <= len(pages):
        said = f"There {'is 1 page' if len(pages) == 1 else f'are {len(pages)} pages'}."
        raise UsageError(f"there is no page {page}", hint=said)
    if len(pages) == 1:
        return pages[0]
    more = f"; call again with page={page + 1} for the next" if page < len(pages) else ""
    return f"{pages[page - 1]}(page {page} of {len(pages)}{more})\n"


def _pages(text: str) -> Iterator[str]:
    room, held = MOST_TOKENS - _FOOTER, list[str]()
    left = room
    for line in _pieces(text):
        cost = tokens(line)
        if held and cost > left:
            yield "".join(held)
            held, left = [], room
        held.append(line)
        left -= cost
    yield "".join(held)


def _pieces(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), _LONGEST_PIECE):
            piece = line[start : start + _LONGEST_PIECE]
            yield piece if piece.endswith("\n") else f"{piece}\n"
