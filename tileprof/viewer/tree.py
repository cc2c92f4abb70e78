"""The tree in a terminal: numbers at the left, names at the right, what was folded below.

In: a profile, options, a width and what the terminal can show.  Out: the whole text to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof.profile import PcRecording, Profile, with_frames
from tileprof.profile.transform.groups import IMPORT, OUTSIDE, PASSING
from tileprof.profile.transform.regroup import HIDDEN
from tileprof.profile.units import cells, each_once, format_percent, format_value, percents
from tileprof.viewer.chains import Chains, chains, every_node, joined
from tileprof.viewer.columns import Column, Values, column, default_rates, visits
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Grid, Label, wrap
from tileprof.viewer.kernel_facts import with_facts
from tileprof.viewer.options import (
    DEFAULT_THRESHOLD,
    Mode,
    ViewOptions,
)
from tileprof.viewer.outline import Outline
from tileprof.viewer.rows import TreeRows
from tileprof.viewer.sample_shares import LEGEND, share_names
from tileprof.viewer.screen import fitted
from tileprof.viewer.selection import (
    Framed,
    Selection,
    arranged,
    check_groups,
    select,
    shown_metrics,
)
from tileprof.viewer.text import (
    ASCII,
    UNICODE,
    Glyphs,
    bar,
    bar_steps,
    clean,
    heat,
    heat_steps,
    plain,
)

from .notes import (
    headline,
    label_of,
    missing_from,
    nothing_in,
    once,
    steps_in,
    title_of,
    visit_times,
)

_BAR_WIDTH = 8
_LEGENDS = {
    "top-down": "{0}: a node with all below it{1}.",
    "bottom-up": "{0}: what a node holds itself, and below it its callers; a kernel holds what its "
    "scopes hold.",
    "flat": "{0}: what a node holds itself, wherever called from; a kernel holds what its scopes "
    "hold.",
}

_OWN_VISITS = "{0}: of the visits of a node itself."
_DEALT_OUT = "{}: of a function, dealt out over its kernels by their time."
_MEANS = "{0}: the mean over kernels, weighted with their time."


def render(profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool) -> str:
    """The tree of `profile` in lines of at most `width` cells (40 at least), ending in a newline.

    Raises UsageError for options that do not fit the profile.
    """
    glyphs = UNICODE if unicode else ASCII
    width = max(width, MINIMUM_WIDTH)
    if nothing := nothing_in(profile, width):
        return nothing
    profile = with_facts(profile, options.metrics)
    selection = _selected(profile, options)
    check_groups(selection.profile, options)
    columns = columns_of(profile, selection, options)
    rows = tree_rows(selection, columns, options, glyphs)
    # Columns that were asked for go last; those by default make room for deep paths.
    drawn = rows.drawn(width, color, int(selection.profile.depths.max(initial=0)))
    lines = [
        *title_of(profile, width, glyphs, color),
        *wrap(plain(_headline(profile, options), glyphs), width, color),
        *missing_from(profile, width, glyphs, color),
        drawn.header(),
        drawn.whole(),
        *(drawn.row(line) for line in rows.outline.order.tolist() if not rows.hidden[line]),
    ]
    below = [*_below(selection, columns, drawn.grid, options), *steps_in(profile)]
    for sentence in below:
        lines += wrap(plain(sentence, glyphs), width, color)
    return "\n".join(lines) + "\n"


def rows_of(
    profile: Profile, options: ViewOptions, glyphs: Glyphs, framed: Framed = with_frames
) -> TreeRows:
    """Return all lines of the tree that options ask for, whatever their threshold.

    Raises UsageError for options that do not fit the profile. `framed` is that of `arranged`.
    """
    profile = with_facts(profile, options.metrics)
    selection = arranged(profile, options, "user", framed)
    check_groups(selection.profile, options)
    return tree_rows(selection, columns_of(profile, selection, options), options, glyphs)


def columns_of(profile: Profile, selection: Selection, options: ViewOptions) -> list[Column]:
    """Return the columns that were asked for, or those by default; rates by default come apart.

    `profile` is what `selection` was made from. Raises UsageError for a column it does not have.
    """
    per_visit = options.mode != "bottom-up"
    names = shown_metrics(profile, options)
    return [column(selection.profile, name, per_visit) for name in names]


def tree_rows(
    selection: Selection, columns: list[Column], options: ViewOptions, glyphs: Glyphs
) -> TreeRows:
    """Return the lines of the tree with their numbers; the first column ranks them."""
    profile, first = selection.profile, columns[0]
    extras = () if options.metrics else default_rates(profile, options.mode != "bottom-up")
    fields = _fields(profile, columns, options.mode, glyphs)
    fields += [_totals(extra, 6, None, glyphs) for extra in extras]
    averages, lines = visit_times(profile), _chains(profile, first.total, options)
    # Sorted by the first column; what is small is decided by one that adds up.
    metric = selection.metric
    ranking = profile.total(metric) if metric else first.total
    at_top = [symbol.name == HIDDEN.name and symbol == HIDDEN for symbol in profile.symbols]

    tops = frozenset(profile.roots()) if options.mode == "top-down" else frozenset()

    def labels(line: int, drawn: str) -> Label:
        node = int(lines.nodes[line])
        label = label_of(profile, node, drawn, averages, glyphs)
        if options.group and node in tops:
            # A group is no scope of the program, whatever stands for it in the tree.
            label = replace(label, notes=() if label.name in OUTSIDE else (options.group,))
        return joined(profile, label, lines.before.get(node, ()), glyphs)

    return TreeRows(
        profile=profile,
        nodes=lines.nodes,
        outline=Outline(
            lines.parents, first.total[lines.nodes], _once(profile, options)[lines.nodes]
        ),
        amounts=np.asarray(ranking[lines.nodes], np.float64),
        whole=float(profile.whole[metric]) if metric else 0.0,
        hidden=np.array(at_top, bool)[profile.symbol][lines.nodes],
        fields=fields,
        rows=lines.nodes.astype(np.int64),
        labels=labels,
        glyphs=glyphs,
        deep=not options.metrics,
    )


def _selected(profile: Profile, options: ViewOptions) -> Selection:
    """Apply the options; without a threshold, the least one that gives no more than a screen."""
    if options.threshold is not None or options.mode != "top-down":
        return select(profile, options, DEFAULT_THRESHOLD, "user")
    whole = arranged(profile, options, "user")
    return fitted(whole, lambda of: _once(of, options), lambda shown: _count(shown, options))


def _once(profile: Profile, options: ViewOptions) -> npt.NDArray[np.bool_]:
    """Return the nodes at the top that come after what goes on: set-up and imports; of groups, also
    what is in none."""
    found = np.zeros(len(profile), bool)
    if options.group is None or options.mode != "top-down":
        return once(profile)
    for top in profile.roots():
        name = profile.names[top]
        passing = options.group == "phase" and name in PASSING
        imported = options.group == "line" and name.endswith(IMPORT)
        found[top] = name in OUTSIDE or passing or imported
    return found


def _count(selection: Selection, options: ViewOptions) -> int:
    return len(_chains(selection.profile, selection.profile.total(selection.metric), options).nodes)


def _chains(profile: Profile, total: Values, options: ViewOptions) -> Chains:
    """Return the lines of the tree: chains are one where no frames were asked for."""
    joins = options.mode == "top-down" and options.frames in (None, "user")
    return chains(profile, total) if joins else every_node(profile)


def _headline(profile: Profile, options: ViewOptions) -> str:
    """Return what a tree of all of the program begins with."""
    parts = options.metrics or options.include or options.exclude or options.mode != "top-down"
    return "" if parts else headline(profile)


def _fields(profile: Profile, columns: list[Column], mode: Mode, glyphs: Glyphs) -> list[Field]:
    """One cell for every node, and a last one for the whole."""
    first, *others = columns
    shares = np.append(first.shares(), 1.0 if first.sums and first.whole else np.nan)
    heats = each_once(shares, heat_steps(shares), lambda shown: list(map(heat, shown)))
    fields = [_totals(first, 0, heats, glyphs)]
    if first.sums:
        steps = bar_steps(shares, _BAR_WIDTH, glyphs)
        bars = each_once(
            shares, steps, lambda shown: [bar(share, _BAR_WIDTH, glyphs) for share in shown]
        )
        fields.append(Field("%", percents(shares), 2, heats))
        fields.append(Field("", bars, 9, heats, left=True))
    if (own_values := _own(first, mode)) is not None:
        own = cells(np.append(own_values, np.nan), first.unit)
        own = [plain(cell, glyphs) for cell in own] if glyphs is ASCII else own
        fields.append(Field("own", own, 4))
    if "count" in profile.metrics and all(c.name != "count" for c in columns):
        counts = visits(profile, per_visit=mode != "bottom-up").astype(np.float64)
        counts[counts == 0] = np.nan
        fields.append(Field("count", cells(np.append(counts, np.nan), "1"), 5))
    return fields + [_totals(other, 3, None, glyphs) for other in others]


def _own(first: Column, mode: Mode) -> Values | None:
    """Own values where they are worth a column; trees that are not top-down show nothing else."""
    return first.own if mode == "top-down" and first.has_split() else None


def _totals(shown: Column, rank: int, heats: list[str] | None, glyphs: Glyphs) -> Field:
    texts = cells(np.append(shown.total, shown.whole), shown.unit)
    texts = [plain(cell, glyphs) for cell in texts] if glyphs is ASCII else texts
    return Field(clean(shown.name, glyphs), texts, rank, heats)


def _below(
    selection: Selection, columns: list[Column], grid: Grid, options: ViewOptions
) -> Iterator[str]:
    """Return notes on what was folded, how to read the columns, and what there was no room for."""
    profile = selection.profile
    unit, whole = profile.metrics[selection.metric].unit, float(profile.whole[selection.metric])
    if options.include is not None and all(symbol == HIDDEN for symbol in profile.symbols):
        yield (
            f"Nothing is left by -i '{options.include}'. It is matched with the names of nodes, as"
            " `--frames all` shows them."
        )
    for fold in selection.folds:
        nodes = f"{fold.nodes:,} node{'s' if fold.nodes > 1 else ''}"
        share = f" ({format_percent(fold.amount / whole)} %)" if whole else ""
        amount = f"{format_value(fold.amount, unit)}{share} of {selection.metric}"
        yield f"Folded: {nodes} {fold.reason}, {'together' if fold.nodes > 1 else 'with'} {amount}."
    if selection.left_out:
        frames = f"{selection.left_out:,} frame{'s' if selection.left_out > 1 else ''}"
        yield f"Not shown: {frames} of libraries; `--frames all` shows them."
    yield from _legends(columns, options.mode)
    if options.mode == "top-down" and share_names(profile):
        yield LEGEND
    yield from (f"{note}." for note in profile.notes())
    held = profile.tables.pc
    known = {"pc_samples"} if _are_dealt_out(held.recordings) else set()
    known |= {*held.counts.metrics, *(each.name for each in held.counts.rates)}
    if dealt_out := [each.name for each in columns if each.name in known]:
        yield _DEALT_OUT.format(", ".join(dealt_out))
    if grid.dropped:
        yield f"No room for: {', '.join(grid.dropped)}."


def _are_dealt_out(recordings: Iterable[PcRecording]) -> bool:
    return any(each.mode == "continuous" for each in recordings)


def _legends(columns: list[Column], mode: Mode) -> Iterator[str]:
    """Explain the first column, and the columns that are means."""
    first = columns[0]
    if first.adds != "mean":
        own = "" if _own(first, mode) is None else "; own: the node alone"
        visits = first.adds == "quantile" and mode == "top-down"
        yield (_OWN_VISITS if visits else _LEGENDS[mode]).format(first.name, own)
    if means := [each.name for each in columns if each.adds == "mean"]:
        yield _MEANS.format(", ".join(means))
