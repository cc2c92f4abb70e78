"""Choices of a reader about what a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tileprof.viewer.options import check_choice

Voice: TypeAlias = Literal["author", "compiler"]

VOICES: tuple[Voice, ...] = get_args(Voice)
"""Readers: whoever wrote the kernel or the program, or whoever develops the compiler."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The choices of one report; the defaults are those of `tileprof report`."""

    voice: Voice = "author"
    include: str | None = None
    """A regular expression: only findings whose kernel, path or rule matches, and all of these."""
    height: int = 40
    """Lines that a screen has; findings beyond are counted."""

    def __post_init__(self) -> None:
        check_choice("voice", self.voice, VOICES)
