"""Subjects of an interactive view: one profile, two compared, and news of a running program.

In: profiles and the choices of a reader.  Out: the lines of a tree, and sentences above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tileprof.once import cached_property
from tileprof.profile import Diff, Frames, Profile, as_shown, diff, with_frames
from tileprof.profile.transform.frames import Shown
from tileprof.viewer import ViewOptions, available_metrics
from tileprof.viewer.diff import diff_rows
from tileprof.viewer.grid import wrap
from tileprof.viewer.notes import headline, missing_from, nothing_in, title_of
from tileprof.viewer.rows import TreeRows
from tileprof.viewer.text import Glyphs, plain
from tileprof.viewer.tree import rows_of


class Subject(Protocol):
    """Subject of a view: what its tree is made of."""

    @property
    def profile(self) -> Profile:
        """The profile whose sources, machine code and findings are shown."""

    @property
    def menus(self) -> Sequence[str]:
        """Names of the options that a reader can change."""

    def metrics(self) -> Sequence[str]:
        """Return the columns that can be asked for."""

    def rows(self, options: ViewOptions, glyphs: Glyphs) -> TreeRows | str:
        """Return the lines of the tree, or a sentence on why there are none."""

    def title(self, width: int, glyphs: Glyphs, color: bool) -> list[str]:
        """Return the lines above the tree."""


@dataclass(frozen=True, eq=False)
class OneProfile:
    """A profile as it is."""

    profile: Profile
    menus: Sequence[str] = ("metric", "group", "mode", "frames", "threshold")
    _shown: dict[tuple[Frames, str | None, str | None], Shown] = field(
        default_factory=dict, repr=False
    )

    def metrics(self) -> Sequence[str]:
        """Return the columns that can be asked for."""
        return available_metrics(self.profile)

    def rows(self, options: ViewOptions, glyphs: Glyphs) -> TreeRows | str:
        """Return the lines of the tree, or a sentence on why there are none."""
        nothing = nothing_in(self.profile, 10_000).strip()
        return nothing or rows_of(self.profile, options, glyphs, self._framed)

    def _framed(
        self, profile: Profile, frames: Frames, include: str | None, layers: str | None
    ) -> Shown:
        """Leave frames out; of the whole profile once for all of its orders and groups."""
        if profile is not self.profile:
            return with_frames(profile, frames, include, layers)
        key = (frames, include, layers)
        if key not in self._shown:
            self._shown[key] = with_frames(profile, *key)
        return self._shown[key]

    @cached_property
    def _headline(self) -> str:
        return headline(self.profile)

    def title(self, width: int, glyphs: Glyphs, color: bool) -> list[str]:
        """Return the command, what the program did, and what was not recorded."""
        said = self._headline
        return [
            *title_of(self.profile, width, glyphs, color),
            *wrap(plain(said, glyphs), width, color),
            *missing_from(self.profile, width, glyphs, color),
        ]


@dataclass(frozen=True, eq=False)
class TwoProfiles:
    """The differences of two profiles; sources and findings are those of the new one."""

    old: Profile
    new: Profile
    menus: Sequence[str] = ("metric", "frames", "threshold")
    _made: dict[Frames, Diff] = field(default_factory=dict, repr=False)

    @property
    def profile(self) -> Profile:
        """The new profile."""
        return self.new

    def metrics(self) -> Sequence[str]:
        """Return the columns that can be asked for."""
        return [name for name, each in self._diff("user").metrics.items() if each.adds == "sum"]

    def rows(self, options: ViewOptions, glyphs: Glyphs) -> TreeRows | str:
        """Return the lines that differ, or a sentence on why there are none."""
        found = self._diff(options.frames or "user")
        if all(metric.adds != "sum" for metric in found.metrics.values()):
            return "Neither profile holds a number that could be compared."
        rows = diff_rows(found, options.metrics, glyphs)
        return rows if len(rows) else "There is no difference."

    def title(self, width: int, glyphs: Glyphs, color: bool) -> list[str]:
        """Return both commands."""
        sides = (("old", self.old), ("new", self.new))
        return [
            f"{name}: {line}"
            for name, each in sides
            for line in title_of(each, width - 5, glyphs, color)
        ]

    def _diff(self, frames: Frames) -> Diff:
        if frames not in self._made:
            sides = (as_shown(each, frames).profile for each in (self.old, self.new))
            self._made[frames] = diff(*sides)
        return self._made[frames]


@dataclass(frozen=True)
class Update:
    """News of a program that runs."""

    status: str
    """Words on what the program does, for the last line."""
    subject: Subject | None = None
    """Recording until now; None where it is as before."""
    is_over: bool = False
    """True once the program has ended: no other update follows."""


class Feed(Protocol):
    """A program that runs while it is looked at."""

    def next(self) -> Update:
        """Wait for news, until `stop`."""

    def output(self) -> Sequence[str]:
        """Return the last lines that the program has printed."""

    def stop(self) -> None:
        """End a wait for news, which nobody reads any more; from another thread."""

    def interrupt(self) -> bool:
        """Ask the program to end, as Ctrl-C does; False where the reader leaves instead."""
