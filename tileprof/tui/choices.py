"""Options of a view as a reader chooses them from lists, and what the last line says of them.

In: options and a chosen word, or the lines in sight.  Out: other options, or words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast, get_args

from tileprof.profile import Frames, Group
from tileprof.tui.state import TreeState
from tileprof.viewer import Mode, ViewOptions

CHOICES: dict[str, Sequence[str]] = {
    "group": ("none", *get_args(Group)),
    "mode": get_args(Mode),
    "frames": get_args(Frames),
    "threshold": ("0", "0.5", "1", "2", "5"),
}
"""Values of the options that have a few; those of `metric` are a subject's own."""


def current(options: ViewOptions, option: str) -> str:
    """Return the value that an option has now; the threshold is no option of the tree's lines."""
    match option:
        case "metric":
            return options.metrics[0] if options.metrics else ""
        case "group":
            return options.group or "none"
        case "mode":
            return options.mode
        case _:
            return options.frames or "user"


def changed(
    options: ViewOptions, option: str, value: str, columns: Sequence[str] = ()
) -> ViewOptions:
    """Return options with another value; `columns` stand beside a metric that is chosen."""
    match option:
        case "metric":
            return replace(options, metrics=(value, *(each for each in columns if each != value)))
        case "group":
            group = None if value == "none" else cast(Group, value)
            return replace(options, group=group, mode="top-down")
        case "mode":
            return replace(options, mode=cast(Mode, value), group=None)
        case _:
            return replace(options, frames=cast(Frames, value))


def in_words(state: TreeState, options: ViewOptions, pattern: str) -> Iterator[str]:
    """Yield how much of a tree is in sight, what was chosen, and what a search found."""
    small = state.out_of_sight
    out = f", {small:,} below {state.choices.threshold:g} % out of sight" if small else ""
    yield f"{len(state):,} of {len(state.rows):,} lines in sight{out}"
    if options.metrics:
        yield f"sorted by {options.metrics[0]}"
    if options.group:
        yield f"grouped by {options.group}"
    if options.mode != "top-down":
        yield options.mode
    if options.frames:
        yield f"frames: {options.frames}"
    if pattern:
        found = int(state.matches.sum())
        is_here = bool(len(state)) and bool(state.matches[state.cursor])
        here = f"{state.place_of_match(state.cursor):,} of " if is_here else ""
        yield f"/{pattern}: {here}{found:,}"
