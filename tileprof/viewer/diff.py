"""Two profiles compared: old, new, delta and ratio of every node that changed.

In: a `Diff`, options, a width and what the terminal can show.  Out: the whole text to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import Change, Diff
from tileprof.profile.units import cells, format_value
from tileprof.viewer.columns import default_metric
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Grid, Label, wrap
from tileprof.viewer.notes import label_of, once, title_of, visit_times
from tileprof.viewer.options import MOST_LINES, THRESHOLDS, DiffOptions
from tileprof.viewer.outline import Outline
from tileprof.viewer.rows import TreeRows
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, plain

if TYPE_CHECKING:
    from tileprof.analyzer.changes import KernelChange

_WORSE, _BETTER = "31", "32"
_MARKS = {"both": " ", "old": "-", "new": "+"}


@dataclass(frozen=True, slots=True)
class _Shown:
    """The nodes of a diff that are drawn, parents before children, and what is left out."""

    nodes: list[int]
    parents: npt.NDArray[np.int32]
    """Position in `nodes` of each drawn node's parent."""
    folded: float
    """The difference held by the nodes left out; NaN for metrics that do not add up."""
    floor: float
    """The smallest difference that is shown, in the metric's unit."""


def render_diff(diff: Diff, options: DiffOptions, width: int, color: bool, unicode: bool) -> str:
    """Return differences as a tree, at most `width` cells wide (40 at least), with a final newline.

    Siblings come by the size of their difference. Raises UsageError for a metric that neither side
    has, and for a threshold that is no percentage.
    """
    glyphs = UNICODE if unicode else ASCII
    width = max(width, MINIMUM_WIDTH)
    if all(metric.adds != "sum" for metric in diff.metrics.values()):
        said = "Neither profile holds a number that could be compared."
        return "\n".join(wrap(said, width, color)) + "\n"
    metrics = options.metrics or (_default(diff),)
    # Nobody chose a threshold: the least one that gives a screen.
    chosen = THRESHOLDS if options.threshold is None else (options.threshold,)
    for threshold in chosen:
        shown = _select(diff, metrics[0], threshold, options.depth)
        if len(shown.nodes) <= MOST_LINES:
            break
    rows = _rows(diff, metrics, shown, glyphs, deep=not options.metrics)
    drawn = rows.drawn(width, color)
    lines = [
        *_title(diff, width, glyphs, color),
        drawn.header(),
        drawn.whole(),
        *(drawn.row(line) for line in rows.outline.order.tolist()),
    ]
    for sentence in _below(diff, metrics[0], shown, threshold, drawn.grid):
        lines += wrap(plain(sentence, glyphs), width, color)
    return "\n".join(lines) + "\n"


def _default(diff: Diff) -> str:
    """Return the default metric of either side; device time where one of them has it."""
    old, new = default_metric(diff.old), default_metric(diff.new)
    return old if old == "time" else new


def _select(diff: Diff, metric: str, threshold: float, depth: int | None) -> _Shown:
    """Return the nodes whose difference reaches the threshold, with the paths that lead to them."""
    if not 0 <= threshold <= 100:
        raise UsageError(
            f"the threshold {threshold:g} is not a percentage", hint="Give one from 0 to 100, as 1."
        )
    whole = diff.whole(metric)
    floor = float(np.nanmax([abs(whole.old), abs(whole.new), 0])) * threshold / 100
    change = np.abs(_differences(diff, metric))
    keep = (change >= floor) & (change > 0)
    parents, depths = diff.old.parents, diff.old.depths
    for node in np.flatnonzero(keep)[::-1].tolist():
        while (above := int(parents[node])) >= 0 and not keep[above]:
            keep[above], node = True, above
    if depth is not None:
        if depth < 1:
            raise UsageError(
                f"a tree of depth {depth} has no nodes", hint="Use a depth of 1 or more."
            )
        keep &= depths < depth
    nodes = np.flatnonzero(keep)
    position = np.full(len(diff) + 1, -1, np.int32)
    position[nodes] = np.arange(len(nodes))
    sums = diff.metrics[metric].adds == "sum"
    folded = float(_own_differences(diff, metric)[~keep].sum()) if sums else float("nan")
    return _Shown(nodes.tolist(), position[parents[nodes]], folded, floor)


def _differences(diff: Diff, metric: str) -> npt.NDArray[Any]:
    return np.nan_to_num(np.asarray(diff.delta(metric), np.float64))


def _own_differences(diff: Diff, metric: str) -> npt.NDArray[Any]:
    """Return new less old values outside of nodes' children, with what was folded into them."""
    new = diff.new.own[metric] + diff.new.absorbed[metric]
    return np.asarray(new - diff.old.own[metric] - diff.old.absorbed[metric])


def _title(diff: Diff, width: int, glyphs: Glyphs, color: bool) -> Iterator[str]:
    old, new = (title_of(side, width - 5, glyphs, color) for side in (diff.old, diff.new))
    yield from (f"old: {line}" for line in old)
    yield from (f"new: {line}" for line in new)


def _fields(diff: Diff, metrics: tuple[str, ...], nodes: list[int], glyphs: Glyphs) -> list[Field]:
    """Return one cell for every shown node, and a last one for the whole."""
    first, *others = metrics
    changes = [*(diff.change(first, node) for node in nodes), diff.whole(first)]
    unit = diff.metrics[first].unit
    there = [*(diff.status[node] for node in nodes), "both"]
    nan = float("nan")
    old = _cells([nan if s == "new" else c.old for c, s in zip(changes, there)], unit, glyphs)
    new = _cells([nan if s == "old" else c.new for c, s in zip(changes, there)], unit, glyphs)
    times = "x" if glyphs is ASCII else "×"
    ratios = [f"{c.ratio:.2f}{times}" if c.new and np.isfinite(c.ratio) else "" for c in changes]
    marks = [*(_MARKS[diff.status[node]] for node in nodes), ""]
    return [
        Field("old", old, 3),
        Field("new", new, 2),
        _deltas("delta", changes, unit, 0, glyphs),
        Field("ratio", ratios, 4, [_direction(change) for change in changes]),
        *(_others(diff, metric, nodes, glyphs) for metric in others),
        Field("", marks, 1),
    ]


def _others(diff: Diff, metric: str, nodes: list[int], glyphs: Glyphs) -> Field:
    changes = [*(diff.change(metric, node) for node in nodes), diff.whole(metric)]
    return _deltas(clean(metric, glyphs), changes, diff.metrics[metric].unit, 5, glyphs)


def _deltas(title: str, changes: list[Change], unit: str, rank: int, glyphs: Glyphs) -> Field:
    texts = _cells([change.delta for change in changes], unit, glyphs, signed=True)
    return Field(title, texts, rank, [_direction(change) for change in changes])


def _cells(values: list[float], unit: str, glyphs: Glyphs, signed: bool = False) -> list[str]:
    return [plain(cell, glyphs) for cell in cells(values, unit, signed)]


def _direction(change: Change) -> str:
    return _WORSE if change.delta > 0 else _BETTER if change.delta < 0 else ""


def diff_rows(diff: Diff, metrics: tuple[str, ...], glyphs: Glyphs) -> TreeRows:
    """Return the lines of all nodes that differ, with their numbers; none means the default metric.

    Raises UsageError for a metric that neither side has.
    """
    chosen = metrics or (_default(diff),)
    return _rows(diff, chosen, _select(diff, chosen[0], 0, None), glyphs, deep=not metrics)


def _rows(
    diff: Diff, metrics: tuple[str, ...], shown: _Shown, glyphs: Glyphs, *, deep: bool
) -> TreeRows:
    nodes, times = np.array(shown.nodes, np.int32), visit_times(diff.new)
    sizes = np.abs(_differences(diff, metrics[0]))[nodes]
    whole = diff.whole(metrics[0])

    def labels(line: int, drawn: str) -> Label:
        node = shown.nodes[line]
        style = {"old": _BETTER, "new": _WORSE}.get(diff.status[node], "")
        return label_of(diff.new, node, drawn, times, glyphs, style)

    return TreeRows(
        profile=diff.new,
        nodes=nodes,
        outline=Outline(shown.parents, sizes, once(diff.new)[nodes]),
        amounts=sizes,
        whole=float(np.nanmax([abs(whole.old), abs(whole.new), 0])),
        hidden=np.zeros(len(nodes), bool),
        fields=_fields(diff, metrics, shown.nodes, glyphs),
        rows=np.arange(len(nodes)),
        labels=labels,
        glyphs=glyphs,
        deep=deep,
    )


def _below(diff: Diff, metric: str, shown: _Shown, threshold: float, grid: Grid) -> Iterator[str]:
    """Yield what was folded, how to read the columns, and what there was no room for."""
    unit, hidden = diff.metrics[metric].unit, len(diff) - len(shown.nodes)
    limit = f"{format_value(shown.floor, unit)} ({threshold:g} %)"
    if not shown.nodes:
        yield f"There is no difference above {limit} in {metric}."
    elif hidden:
        together = "" if np.isnan(shown.folded) else f", together {_signed(shown.folded, unit)}"
        yield f"Folded: {hidden:,} node{'s' if hidden > 1 else ''}{together}."
    if shown.nodes:
        least = f"; shown from a difference of {limit}" if threshold else ""
        yield f"{metric}: a node with all below it{least}."
        yield "+ is only in new, - only in old."
    if grid.dropped:
        yield f"No room for: {', '.join(grid.dropped)}."


def _signed(value: float, unit: str) -> str:
    return cells([value], unit, signed=True)[0]


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
