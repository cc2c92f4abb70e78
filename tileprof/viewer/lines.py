"""Costs beside the source: each line with what it holds itself; what costs nothing is left out.

In: a profile with source texts in its tables.  Out: the lines around each cost, dearest file first.
What a node without a place of its own holds belongs to the line that led to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Grid, Label, arrange, wrap
from tileprof.viewer.notes import missing_from, nothing_in, steps_in, title_of
from tileprof.viewer.options import DEFAULT_THRESHOLD, ViewOptions
from tileprof.viewer.sample_shares import line_texts
from tileprof.viewer.selection import select, shown_metrics
from tileprof.viewer.text import (
    ASCII,
    UNICODE,
    Glyphs,
    bar,
    clean,
    fit,
    heat,
    plain,
    shorten,
    width_of,
)
from tileprof.viewer.units import cells, format_percent, format_value

__all__ = ["render_lines"]

_AROUND = 1
"""Lines of source shown above and below one with a cost."""
_BAR_WIDTH = 8

_Costs: TypeAlias = dict[str, dict[int, tuple[float, ...]]]
"""By file and line, what the nodes there hold themselves, one number a metric."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """What every line of every file costs, and which of them are worth showing."""

    profile: Profile
    metrics: tuple[str, ...]
    costs: _Costs
    floor: float
    """Percent of the whole from which a line is shown."""
    seen: Mapping[tuple[str, int], str]
    """What samplers say of lines inside kernels, where the reader asked for nothing else."""

    @property
    def whole(self) -> float:
        return float(self.profile.whole[self.metrics[0]])

    def share(self, amount: float) -> float:
        return amount / self.whole if self.whole else 0.0

    def amount(self, value: float) -> str:
        unit = self.profile.metrics[self.metrics[0]].unit
        return f"{format_value(value, unit)} ({format_percent(self.share(value))} %)"

    def cost_of(self, file: str) -> float:
        return sum(cost[0] for cost in self.costs[file].values())

    def hot(self, file: str) -> set[int]:
        lines = self.costs[file].items()
        return {line for line, cost in lines if self.share(cost[0]) * 100 >= self.floor}


@dataclass(frozen=True, slots=True)
class _Row:
    """One printed line of a file."""

    file: str
    line: int
    text: str


def render_lines(
    profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool
) -> str:
    """Source lines with own values of the metrics, in lines of at most `width` cells (40 at least).

    Filters and threshold of `options` hold; depth and mode have no meaning here. Raises UsageError
    for a metric that does not add up.
    """
    glyphs = UNICODE if unicode else ASCII
    width = max(width, MINIMUM_WIDTH)
    if nothing := nothing_in(profile, width):
        return nothing
    listing = _listing(profile, options)
    rows = list(_rows(listing))
    grid = arrange(_fields(listing, rows, glyphs), width, glyphs, color)
    lines = [
        *title_of(profile, width, glyphs, color),
        *missing_from(profile, width, glyphs, color),
        grid.header("source"),
        *_printed(listing, rows, grid, width),
    ]
    for sentence in (*_below(listing), *steps_in(profile)):
        lines += wrap(clean(sentence, glyphs), width, color)
    return "\n".join(lines) + "\n"


def _listing(profile: Profile, options: ViewOptions) -> _Listing:
    names = shown_metrics(profile, options)
    adding = [name for name, metric in profile.metrics.items() if metric.adds == "sum"]
    for name in names:
        if name not in adding:
            raise UsageError(
                f"`{name}` does not add up over the visits of a line",
                hint=f"With --lines use: {', '.join(adding)}.",
            )
    kept = select(profile, replace(options, mode="top-down", depth=None), 0).profile
    floor = DEFAULT_THRESHOLD if options.threshold is None else options.threshold
    places, index = _places(kept)
    seen = {} if options.metrics else line_texts(kept, places, index)
    return _Listing(kept, names, _costs(kept, names, places, index), floor, seen)


def _places(profile: Profile) -> tuple[list[tuple[str, int]], list[int]]:
    """Lines, and the number of that of each node; -1 for none."""
    places: dict[tuple[str, int], int] = {}
    index: list[int] = []
    for parent, location in zip(profile.parents.tolist(), profile.locations):
        if location is not None and location.line:
            index.append(places.setdefault((location.file, location.line), len(places)))
        else:
            index.append(index[parent] if parent >= 0 else -1)
    return list(places), index


def _costs(
    profile: Profile, names: tuple[str, ...], places: list[tuple[str, int]], index: list[int]
) -> _Costs:
    slots = np.array(index) + 1  # slot 0 takes what has no place
    sums = [
        np.bincount(slots, profile.own[name] + profile.absorbed[name], len(places) + 1)[1:].tolist()
        for name in names
    ]
    costs: _Costs = {}
    for (file, line), values in zip(places, zip(*sums)):
        if any(values):
            costs.setdefault(file, {})[line] = values
    return costs


def _rows(listing: _Listing) -> Iterator[_Row]:
    """The lines worth showing with their surroundings, file by file, dearest file first."""
    for file in sorted(listing.costs, key=listing.cost_of, reverse=True):
        text, hot = _source(listing.profile, file), listing.hot(file)
        near = {line + step for line in hot for step in range(-_AROUND, _AROUND + 1)}
        for line in sorted(hot | (near & text.keys())):
            yield _Row(file, line, text.get(line, ""))


def _source(profile: Profile, file: str) -> dict[int, str]:
    """The lines of a file by number: all of it, or those of the kernels in it."""
    if file in profile.tables.sources:
        return dict(enumerate(profile.tables.sources[file].splitlines(), 1))
    lines: dict[int, str] = {}
    for kernel in profile.tables.kernels:
        if kernel.source_file == file:
            lines.update(enumerate(kernel.source.splitlines(), max(kernel.source_line, 1)))
    return lines


def _fields(listing: _Listing, rows: list[_Row], glyphs: Glyphs) -> list[Field]:
    nothing = (float("nan"),) * len(listing.metrics)
    values = [listing.costs[row.file].get(row.line, nothing) for row in rows]
    shares = [listing.share(cost[0]) for cost in values]
    heats = [heat(share) for share in shares]
    columns = []
    for i, name in enumerate(listing.metrics):
        texts = cells([cost[i] for cost in values], listing.profile.metrics[name].unit)
        shown = [plain(text, glyphs) for text in texts]
        columns.append(Field(clean(name, glyphs), shown, 3 if i else 0, None if i else heats))
    percent = Field("%", [format_percent(share) for share in shares], 2, heats)
    bars = Field("", [bar(share, _BAR_WIDTH, glyphs) for share in shares], 9, heats, left=True)
    numbers = Field("line", [str(row.line) for row in rows], 0, ["2"] * len(rows))
    texts = [plain(listing.seen.get((row.file, row.line), ""), glyphs) for row in rows]
    seen = [Field("of its kernels", texts, 5)] if any(texts) else []
    return [columns[0], percent, bars, *columns[1:], *seen, numbers]


def _printed(listing: _Listing, rows: list[_Row], grid: Grid, width: int) -> Iterator[str]:
    file, last = "", 0
    for number, row in enumerate(rows):
        if row.file != file:
            amount = plain(f": {listing.amount(listing.cost_of(row.file))}", grid.glyphs)
            name = clean(row.file, grid.glyphs)
            yield shorten(name, width - width_of(amount), grid.glyphs) + amount
        elif row.line > last + 1 and row.text:
            yield ""
        text = clean(row.text.expandtabs(4), grid.glyphs)
        yield grid.row(number, Label(fit(text, grid.room, grid.glyphs)))
        file, last = row.file, row.line


def _below(listing: _Listing) -> Iterator[str]:
    """What the lines above do not show, so that all of it adds up to the whole."""
    metric, files = listing.metrics[0], listing.costs
    hot = {file: listing.hot(file) for file in files}
    cold = [
        cost[0] for file in files for line, cost in files[file].items() if line not in hot[file]
    ]
    if cold:
        lines = f"{len(cold):,} line{'s' if len(cold) > 1 else ''} below {listing.floor:g} %"
        yield f"Folded: {lines}, together {listing.amount(sum(cold))} of {metric}."
    nowhere = listing.whole - sum(listing.cost_of(file) for file in files)
    if abs(nowhere) > 1e-9 * abs(listing.whole):
        yield f"Without a source line: {listing.amount(nowhere)} of {metric}."
    missing = sorted(file for file in files if hot[file] and not _source(listing.profile, file))
    if missing:
        yield f"The profile does not hold the text of {', '.join(missing)}."
