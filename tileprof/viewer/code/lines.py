"""Costs beside the source: each line with what it holds itself; what costs nothing is left out.

In: a profile with source texts in its tables.  Out: the lines around each cost, dearest file first.
What a node without a place of its own holds belongs to the line that led to it. Samples of program
counters stand beside, with the reasons for which warps did not go on, and counts of instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from tileprof.profile import Profile
from tileprof.profile.units import cells, format_percent, format_value
from tileprof.viewer.code.instruction_columns import count_columns, count_fields, counted_text
from tileprof.viewer.code.line_costs import LineCosts, line_costs
from tileprof.viewer.code.pc_functions import sampling_text, stall_text, weight_text
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Grid, Label, arrange, wrap
from tileprof.viewer.notes import missing_from, nothing_in, steps_in, title_of
from tileprof.viewer.options import ViewOptions
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

_AROUND = 1
"""Lines of source shown above and below one with a cost."""
_BAR_WIDTH = 8


@dataclass(frozen=True, slots=True)
class _Row:
    """One printed line of a file."""

    file: str
    line: int
    text: str


def render_lines(
    profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool
) -> str:
    """Return source lines with own values of the metrics, at most `width` cells (40 at least).

    Filters and threshold of `options` hold; depth and mode have no meaning here. Raises UsageError
    for a metric that does not add up.
    """
    glyphs = UNICODE if unicode else ASCII
    width = max(width, MINIMUM_WIDTH)
    if nothing := nothing_in(profile, width):
        return nothing
    listing = line_costs(profile, options)
    rows = list(_rows(listing))
    grid = arrange(_fields(listing, rows, width, glyphs), width, glyphs, color)
    lines = [
        *title_of(profile, width, glyphs, color),
        *missing_from(profile, width, glyphs, color),
        grid.header("source"),
        *_printed(listing, rows, grid, width),
    ]
    for sentence in (*_below(listing), *steps_in(profile)):
        lines += wrap(clean(sentence, glyphs), width, color)
    return "\n".join(lines) + "\n"


class FileLines(Sequence[str]):
    """The lines of one file with what each costs, drawn when they are asked for."""

    def __init__(
        self, listing: LineCosts, file: str, width: int, color: bool, glyphs: Glyphs
    ) -> None:
        text = listing.sources.lines(file)
        self.numbers = sorted(text)
        """Number of each line in the file: all of it, or the lines of its kernels."""
        rows = [_Row(file, line, text[line]) for line in self.numbers]
        self._rows = rows
        fields = _fields(listing, rows, width, glyphs)
        # Columns without a single number take room from the text.
        shown = [each for each in fields if any(cell.strip() for cell in each.cells)]
        self._grid = arrange(shown, max(width, MINIMUM_WIDTH), glyphs, color)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        """Return the line at a place, counted from 0."""
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        return _drawn(self._rows[at], at, self._grid)

    def header(self) -> str:
        """Return the line of titles."""
        return self._grid.header("source")


def _rows(listing: LineCosts) -> Iterator[_Row]:
    """Yield the lines worth showing with their surroundings, file by file, dearest file first."""
    for file in listing.files:
        text, hot = listing.sources.lines(file), listing.hot(file)
        near = {line + step for line in hot for step in range(-_AROUND, _AROUND + 1)}
        for line in sorted(hot | (near & text.keys())):
            yield _Row(file, line, text.get(line, ""))


def _fields(listing: LineCosts, rows: list[_Row], width: int, glyphs: Glyphs) -> list[Field]:
    nothing = (float("nan"),) * len(listing.metrics)
    values = [listing.costs.get(row.file, {}).get(row.line, nothing) for row in rows]
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
    sampled = _sample_fields(listing, rows, width, glyphs) if listing.sampled else []
    sampled += _count_fields(listing, rows)
    if sampled and not listing.costs:
        return [*sampled, *seen, numbers]
    return [columns[0], percent, bars, *columns[1:], *sampled, *seen, numbers]


def _sample_fields(listing: LineCosts, rows: list[_Row], width: int, glyphs: Glyphs) -> list[Field]:
    """Return samples of program counters, their share of all, and the reasons of stalls."""
    counts = [listing.samples_at(row.file, row.line) for row in rows]
    heats = [heat(count / max(listing.samples, 1)) for count in counts]
    texts = [format_value(count, "1") if count else "" for count in counts]
    shares = [format_percent(n / listing.samples) if n else "" for n in counts]
    parts = 1 if width < 100 else 2 if width < 140 else 3
    stalls = [
        clean(stall_text(listing.sampled.get((row.file, row.line), {}), parts), glyphs)
        for row in rows
    ]
    return [
        Field("samples", texts, 1, heats),
        Field("%", shares, 3, heats),
        Field("stalls (%)", stalls, 4, left=True),
    ]


def _count_fields(listing: LineCosts, rows: list[_Row]) -> list[Field]:
    """Return counts of instructions; their share of executions where nothing else weighs lines."""
    if not listing.counted:
        return []
    columns = count_columns(listing.profile.tables.pc.counts)
    sums = [listing.counted.get((row.file, row.line), {}) for row in rows]
    fields = count_fields(columns, sums, 2)
    if listing.sampled or not fields:
        return fields
    weights = [listing.weights.get((row.file, row.line), 0) for row in rows]
    shares = [weight / max(listing.whole_weight, 1) for weight in weights]
    texts = [format_percent(share) if share else "" for share in shares]
    heats = [heat(share) for share in shares]
    first = replace(fields[0], rank=1, styles=heats)
    return [first, Field("%", texts, 3, heats), *fields[1:]]


def _printed(listing: LineCosts, rows: list[_Row], grid: Grid, width: int) -> Iterator[str]:
    file, last = "", 0
    for number, row in enumerate(rows):
        if row.file != file:
            amount = plain(f": {_amounts(listing, row.file)}", grid.glyphs)
            name = clean(row.file, grid.glyphs)
            yield shorten(name, width - width_of(amount), grid.glyphs) + amount
        elif row.line > last + 1 and row.text:
            yield ""
        yield _drawn(row, number, grid)
        file, last = row.file, row.line


def _drawn(row: _Row, number: int, grid: Grid) -> str:
    text = clean(row.text.expandtabs(4), grid.glyphs)
    return grid.row(number, Label(fit(text, grid.room, grid.glyphs)))


def _amounts(listing: LineCosts, file: str) -> str:
    """Return a file's cost, and how often it was sampled or executed."""
    parts = [listing.amount(listing.cost_of(file))] if file in listing.costs else []
    if weight := listing.weight_of(file):
        parts.append(weight_text(listing.profile.tables.pc, weight, listing.whole_weight))
    return ", ".join(parts)


def _below(listing: LineCosts) -> Iterator[str]:
    """Yield what the lines above leave out, so that all of it adds up to the whole."""
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
    yield from _samples_below(listing)
    missing = sorted(f for f in listing.files if listing.hot(f) and not listing.sources.lines(f))
    if missing:
        yield f"The profile does not hold the text of {', '.join(missing)}."


def _samples_below(listing: LineCosts) -> Iterator[str]:
    """Yield how instructions were sampled or counted, and which of them are not above."""
    held, whole = listing.profile.tables.pc, listing.whole_weight
    if listing.sampled:
        yield f"{sampling_text(held)}."
    if listing.counted:
        yield f"{counted_text(held.counts)}."
    if not listing.weights:
        return
    hot = {(file, line) for file in listing.files for line in listing.hot(file)}
    cold = [weight for place, weight in listing.weights.items() if place not in hot]
    said = []
    if cold:
        said.append(f"{weight_text(held, sum(cold), whole)} on lines below {listing.floor:g} %")
    if nowhere := whole - sum(listing.weights.values()):
        said.append(f"{weight_text(held, nowhere, whole)} without a source line")
    if said:
        yield f"Of them {' and '.join(said)}."
