"""Text in terminal cells."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.viewer.text import ASCII, UNICODE, Glyphs, bar, clean, fit, paint, shorten, width_of

GLYPHS = st.sampled_from([ASCII, UNICODE])


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("matmul", 6, "matmul"),
        ("matmul_kernel_bf16", 9, "matm…bf16"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
        ("行列の積を計算する", 9, "行列…する"),
    ],
)
def test_a_long_name_gives_way_in_its_middle(text: str, width: int, shown: str) -> None:
    """Both ends of a name tell; wide characters count as two cells."""
    assert shorten(text, width, UNICODE) == shown


@given(st.text(max_size=30), st.integers(0, 40), GLYPHS)
def test_cut_text_never_takes_more_than_its_room(text: str, width: int, glyphs: Glyphs) -> None:
    """Both ways of cutting keep to the width, whatever a name is made of."""
    safe = clean(text, glyphs)
    assert width_of(shorten(safe, width, glyphs)) <= width
    assert width_of(fit(safe, width, glyphs)) <= width


@pytest.mark.parametrize(
    ("name", "glyphs", "shown"),
    [
        ("a\nb\x1b[31m", UNICODE, r"a\nb\x1b[31m"),
        ("\u202egnp.exe", UNICODE, r"\u202egnp.exe"),
        ("\udcff", UNICODE, r"\udcff"),
        ("größe µ – 积", ASCII, r"gr\xf6\xdfe u - \u79ef"),
    ],
)
def test_names_cannot_steer_the_terminal(name: str, glyphs: Glyphs, shown: str) -> None:
    """Line ends, escapes and direction marks are shown, not sent; ASCII stays ASCII."""
    assert clean(name, glyphs) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "    "), (1e-6, "▏   "), (0.5, "██  "), (0.55, "██▎ "), (1, "████"), (7, "████")],
)
def test_a_bar_shows_the_share(share: float, shown: str) -> None:
    """Eighths of a cell; something is never drawn as nothing, and nothing passes the end."""
    assert bar(share, 4, UNICODE) == shown


def test_an_ascii_bar_has_whole_cells() -> None:
    """Without block characters a bar is made of number signs."""
    assert bar(0.55, 4, ASCII) == "##  "
    assert bar(float("nan"), 4, ASCII) == "    "


@given(st.text(min_size=1))
def test_paint_changes_nothing_but_colour(text: str) -> None:
    """Colours off leave text as it is; with the codes taken out it is the same text."""
    assert paint(text, "31", False) == text
    assert re.sub("\x1b\\[[0-9;]*m", "", paint(text, "31", True)) == re.sub(
        "\x1b\\[[0-9;]*m", "", text
    )
