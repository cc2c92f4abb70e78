"""Choices of a reader about what a view shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tileprof.errors import UsageError, suggestion
from tileprof.profile import Frames, Group

Mode = Literal["top-down", "bottom-up", "flat"]

DEFAULT_THRESHOLD = 0.5
"""Percent of the whole below which a tree for people folds a node."""
THRESHOLDS = (DEFAULT_THRESHOLD, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
"""Percentages that a tree is folded by until it has no more than `MOST_LINES`."""
MOST_LINES = 25
"""Largest number of lines of a tree that nobody chose a threshold for: a screen."""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The choices of one view; the defaults are those of `tileprof view`."""

    metrics: tuple[str, ...] = ()
    """Columns, first one first; none means `time`, or `cpu_time` where no time was recorded."""
    include: str | None = None
    """A regular expression: only matching nodes, with the paths that lead to them."""
    exclude: str | None = None
    """A regular expression: no matching nodes; what they hold stays with their parents."""
    threshold: float | None = None
    """Percent below which nodes fold; none means 0.5 in a tree, or more where that would be long
    (`THRESHOLDS`), and 0 in JSON and CSV."""
    depth: int | None = None
    """Number of levels shown; deeper nodes fold into the last one."""
    mode: Mode = "top-down"
    frames: Frames | None = None
    """Frames of Python that a tree shows; none means `user` in a tree for people, else `all`."""
    layers: str | None = None
    """A regular expression: layers of a model that are shown one by one, by their names in it;
    others of a container are one."""
    group: Group | None = None
    """Kind of the nodes at the top of a tree, in place of where the program began; those of
    several processes are there already (`merge_by`)."""

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, get_args(Mode))
        check_choice("choice of frames", self.frames or "all", get_args(Frames))
        check_choice("group", self.group or "phase", get_args(Group))


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The choices of one comparison."""

    metrics: tuple[str, ...] = ()
    """The metric to compare by, then others whose differences are shown; none as in a view."""
    threshold: float | None = None
    """Percent of the whole below which a difference folds; none means 0.5, or more where that would
    be long (`THRESHOLDS`)."""
    depth: int | None = None
    """Number of levels shown."""


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Raise UsageError where an option has a value that it cannot take."""
    if value not in known:
        raise UsageError(
            f"`{value}` is no {option}",
            hint=f"{suggestion(value, known)}It is {' or '.join(known)}.",
        )
