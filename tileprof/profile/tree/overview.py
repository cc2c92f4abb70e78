"""A profile in some lines, and its whole tree as plain text.

In: a profile.  Out: a `Card` with its totals and its most expensive places; or a line per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileprof.profile.kernel_places import whole_kernels
from tileprof.profile.tree.cards import MOST_ROWS, Card, short
from tileprof.profile.tree.model import Profile
from tileprof.profile.units import format_percent, format_value

if TYPE_CHECKING:
    from tileprof.profile.transform.diff import Diff

_FIRST = ("time", "cpu_time")
_MOST_INDENT = 40
"""Levels of a tree that are indented; of deeper nodes the level is a number instead."""


def main_metric(profile: Profile) -> str:
    """Return the metric that a profile is read by: the first of some that adds up to anything."""
    adding = [name for name, metric in profile.metrics.items() if metric.adds == "sum"]
    names = [*_FIRST, *adding]
    return next((n for n in names if n in adding and profile.whole[n]), next(iter(adding), ""))


def card_of(profile: Profile) -> Card:
    """Return what a profile is of, its totals and the places with the most of its main metric."""
    known = profile.tables.provenance
    of = ", ".join(text for text in (known.get("command", ""), known.get("device", "")) if text)
    kernels = {s.name for s in profile.symbols if s.kind == "kernel"}
    facts = [f"{len(profile):,} nodes", f"{len(kernels):,} kernel{'s' * (len(kernels) != 1)}"]
    for name in _FIRST:
        if profile.whole.get(name):
            facts.append(f"{name} {format_value(float(profile.whole[name]), 'ns')}")
    return Card(
        f"Profile of {of}" if of else "Profile",
        [", ".join(facts)],
        _hottest(profile),
        "All of it: .text(), .frame(), `tileprof view FILE`; advice: tileprof.analyze(profile).",
    )


def card_of_diff(found: Diff) -> Card:
    """Return what became of the whole program, and the nodes whose own value changed most."""
    old, new = (main_metric(side) for side in (found.old, found.new))
    metric = old if old in _FIRST[:1] else new
    more = "All of it: `tileprof diff OLD NEW`; .delta(metric), .change(metric, node), .status."
    if not metric:
        return Card("Diff", ["Neither profile holds a number that adds up."], (), more)
    unit, whole = found.metrics[metric].unit, found.whole(metric)
    sides = " → ".join(format_value(float(each), unit) for each in (whole.old, whole.new))
    ratio = f", {whole.new / whole.old:.2f}×" if whole.old else ""
    own = [whole_kernels(each, metric).astype(np.float64) for each in (found.new, found.old)]
    delta = own[0] - own[1]
    rows = []
    for node in np.argsort(-np.abs(delta), kind="stable")[:MOST_ROWS].tolist():
        if delta[node]:
            signed = format_value(float(delta[node]), unit)
            sign = "+" if delta[node] > 0 else ""
            rows.append((f"{sign}{signed}", found.new.kinds[node], found.new.names[node]))
    return Card("Diff", [f"{metric}: {sides}{ratio}"], rows, more)


def _hottest(profile: Profile) -> list[tuple[str, ...]]:
    """Return the symbols with the most own value, a kernel with its inside: value, share, kind,
    name.

    A line that imports a library has what the library does then.
    """
    from tileprof.profile.imports import below_imports
    from tileprof.profile.transform.frames import of_libraries
    from tileprof.profile.transform.operations import leave_out

    imported = below_imports(profile) & of_libraries(profile, profile)
    profile = leave_out(profile, imported)[0] if imported.any() else profile
    metric = main_metric(profile)
    whole = float(profile.whole[metric]) if metric else 0.0
    if not whole:
        return []
    values = whole_kernels(profile, metric).astype(np.float64)
    sums = np.bincount(profile.symbol, values, len(profile.symbols))
    found: list[tuple[str, ...]] = []
    for place in np.argsort(-sums, kind="stable")[:MOST_ROWS].tolist():
        if sums[place] > 0:
            symbol, value = profile.symbols[place], float(sums[place])
            unit = profile.metrics[metric].unit
            share, at = f"{format_percent(value / whole)} %", symbol.location
            place = f"{at.file.rpartition('/')[2]}:{at.line}" if at else ""
            found.append((format_value(value, unit), share, symbol.kind, symbol.name, place))
    return found


def tree_text(profile: Profile, metric: str | None = None) -> str:
    """Return the tree, a line a node with its value, those with the most first among siblings.

    Frames of libraries are left out as in views, but for those of a tree that has no others.
    """
    from tileprof.profile.transform.frames import with_frames

    profile = with_frames(profile, "user").profile
    name = main_metric(profile) if metric is None else profile.metric(metric).name
    unit = profile.metrics[name].unit if name else ""
    total = profile.total(name).astype(np.float64) if name else np.zeros(len(profile))
    lines, pending = [], [(node, 0) for node in _order(profile.roots(), total)]
    while pending:
        node, depth = pending.pop()
        indent = "  " * depth if depth <= _MOST_INDENT else f"{'  ' * _MOST_INDENT}({depth}) "
        symbol = profile.symbols[int(profile.symbol[node])]
        place = symbol.location
        at = f"  {short(place.file.rpartition('/')[2])}" if place else ""
        if place and place.line:
            at += f":{place.line}"
        value = format_value(float(total[node]), unit)
        lines.append(f"{value:>9}  {indent}{short(symbol.name)}  {symbol.kind}{at}")
        pending += [(each, depth + 1) for each in _order(profile.children(node), total)]
    return "\n".join(lines)


def _order(nodes: list[int], total: np.typing.NDArray[np.float64]) -> list[int]:
    """Nodes as a stack gives them: the one with the most last."""
    return sorted(reversed(nodes), key=lambda node: float(np.nan_to_num(total[node])))
