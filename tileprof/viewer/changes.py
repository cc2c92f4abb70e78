"""Kernels that take longer than before, or less, and what changed first.

In: changes of kernels, a width and what the terminal can show.  Out: text, empty where there are
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tileprof.viewer.grid import MINIMUM_WIDTH, wrap
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean
from tileprof.viewer.units import format_value

if TYPE_CHECKING:
    from tileprof.analyzer.changes import KernelChange

_MOST = 8


def render_changes(changes: Sequence[KernelChange], width: int, color: bool, unicode: bool) -> str:
    """Return a paragraph for each of the greatest changes, in lines of at most `width` cells."""
    glyphs = UNICODE if unicode else ASCII
    width = max(width, MINIMUM_WIDTH)
    lines = [line for each in _said(changes, glyphs) for line in wrap(each, width, color)]
    return "\n".join(["", *lines, ""]) if lines else ""


def _said(changes: Sequence[KernelChange], glyphs: Glyphs) -> Iterator[str]:
    for each in changes[:_MOST]:
        old, new = (format_value(ns, "ns") for ns in (each.old, each.new))
        told = f"{100 * (each.ratio - 1):+.1f} % (noise {100 * each.noise:.1f} %)"
        first = f"{each.kernel}: {old} → {new} a launch, {told}."
        differs = each.text if each.level == "nothing" else f"{each.level}: {each.text}"
        yield _shown(f"{first} The first that differs is {differs}.", glyphs)
    if len(changes) > _MOST:
        yield f"{len(changes) - _MOST} more kernels changed; --json has them all."


def _shown(text: str, glyphs: Glyphs) -> str:
    if glyphs is ASCII:
        text = text.replace("→", "->").replace("×", "x")
    return clean(text, glyphs)
