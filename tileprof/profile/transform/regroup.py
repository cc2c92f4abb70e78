"""The two moves that operations are made of: hang values up elsewhere, and cut subtrees off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof.profile import metrics as law
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.sketch import merged
from tileprof.profile.tables import Tables
from tileprof.profile.tree.forest import Grown, Nodes, nearest
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.node_sketches import carried
from tileprof.profile.tree.symbol import Symbol

HIDDEN = Symbol("scope", "(hidden)")
"""The top-level node that takes what was cut off there, where no node above can absorb it."""


def keys_of(profile: Profile) -> Nodes:
    """Return, per node, a number that two nodes share when they match (`Symbol.key`)."""
    numbers: dict[tuple[object, ...], int] = {}
    by_symbol = [numbers.setdefault(symbol.key(), len(numbers)) for symbol in profile.symbols]
    return np.array(by_symbol, np.int64)[profile.symbol]


def rehang(profile: Profile, grown: Grown) -> Profile:
    """Move every node's values to its target in a grown forest."""
    moved = np.flatnonzero(grown.target >= 0)
    to = grown.target[moved]

    def scattered(columns: Mapping[str, Column], metric: Metric) -> Column:
        values = columns[metric.name][moved]
        column = law.empty_column(metric, len(grown.parents)).astype(values.dtype)
        law.scatter(metric, column, to, values)
        return column

    return _assembled(
        profile,
        grown.parents,
        profile.symbol[grown.first],
        {name: scattered(profile.own, metric) for name, metric in profile.metrics.items()},
        {name: scattered(profile.absorbed, metric) for name, metric in profile.metrics.items()},
        replace(
            _following(profile.tables, grown.top),
            sketches=carried(profile.tables.sketches, grown.target),
            absorbed_sketches=carried(profile.tables.absorbed_sketches, grown.target),
            timeline=profile.tables.timeline.moved(grown.top),
            track_totals=profile.tables.track_totals.moved(grown.target),
            pc=profile.tables.pc.moved(grown.target),
        ),
    )


def with_symbols(profile: Profile, symbols: Sequence[Symbol]) -> Profile:
    """Return the profile with a further node at the top for each symbol, without values."""

    def longer(columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            name: np.concatenate(
                [column, law.empty_column(profile.metrics[name], len(symbols)).astype(column.dtype)]
            )
            for name, column in columns.items()
        }

    return build(
        [*profile.symbols, *symbols],
        np.append(profile.symbol, len(profile.symbols) + np.arange(len(symbols))),
        np.append(profile.parents, np.full(len(symbols), -1)),
        profile.metrics,
        longer(profile.own),
        longer(profile.absorbed),
        profile.whole,
        profile.tables,
    )


def cut(profile: Profile, keep: npt.NDArray[np.bool_]) -> Profile:
    """Cut off every node that is not to be kept; the node above absorbs its total.

    A kept node's parent must be kept. What was cut off at the top goes to a `HIDDEN` node.
    """
    kept = np.flatnonzero(keep)
    new_id = np.full(len(profile) + 1, -1, np.int64)
    new_id[kept] = np.arange(kept.size)
    # The extra last slot makes parent -1 read as "kept", so that cut roots count as tops too.
    tops = np.flatnonzero(~keep & np.append(keep, True)[profile.parents])
    parents, symbol, symbols = new_id[profile.parents[kept]], profile.symbol[kept], profile.symbols
    homeless = tops[profile.parents[tops] < 0]
    if _hold_values(profile, homeless):
        hidden = _hidden_root(profile, kept)
        if hidden is None:
            hidden = kept.size
            parents, symbol = np.append(parents, -1), np.append(symbol, len(symbols))
            symbols = (*symbols, HIDDEN)
        new_id[-1] = hidden
    to = new_id[profile.parents[tops]]
    tops, to = tops[to >= 0], to[to >= 0]

    def padded(column: Column, metric: Metric) -> Column:
        extra = law.empty_column(metric, len(parents) - kept.size)
        return np.concatenate([column[kept], extra.astype(column.dtype)])

    own = {name: padded(profile.own[name], metric) for name, metric in profile.metrics.items()}
    absorbed = {}
    for name, metric in profile.metrics.items():
        total = profile.total(name)
        absorbed[name] = law.wider(padded(profile.absorbed[name], metric), total)
        if metric.adds != "last":
            law.scatter(metric, absorbed[name], to, total[tops])
    tables = _cut_tables(profile, keep, new_id)
    new_id[-1] = -1
    tables = _following(tables, new_id)
    return _assembled(profile, parents, symbol, own, absorbed, tables, symbols)


def _cut_tables(profile: Profile, keep: npt.NDArray[np.bool_], new_id: Nodes) -> Tables:
    """Return tables in which what belongs to removed nodes goes to the nearest kept node above."""
    own, absorbed = profile.tables.sketches, profile.tables.absorbed_sketches
    timeline, pc = profile.tables.timeline, profile.tables.pc
    totals = profile.tables.track_totals
    if not (own or absorbed or timeline.tracks or totals.tracks or pc):
        return profile.tables
    # Where no node above is kept, the home is -1: there `new_id` has the hidden node.
    home = new_id[nearest(profile.parents, keep)]
    folded = [*carried(absorbed, home).items(), *carried(own, np.where(keep, -1, home)).items()]
    return replace(
        profile.tables,
        sketches=carried(own, np.where(keep, home, -1)),
        absorbed_sketches=merged(folded),
        timeline=timeline.moved(home),
        track_totals=totals.moved(home),
        pc=pc.moved(home),
    )


def _hold_values(profile: Profile, nodes: Nodes) -> bool:
    return any(
        metric.adds != "last" and law.present(metric, profile.total(name)[nodes]).any()
        for name, metric in profile.metrics.items()
    )


def _hidden_root(profile: Profile, kept: Nodes) -> int | None:
    for position in np.flatnonzero(profile.parents[kept] < 0).tolist():
        if profile.symbols[int(profile.symbol[kept[position]])] == HIDDEN:
            return int(position)
    return None


def _assembled(
    profile: Profile,
    parents: npt.NDArray[np.int64],
    symbol: npt.NDArray[np.int32],
    own: Mapping[str, Column],
    absorbed: Mapping[str, Column],
    tables: Tables,
    symbols: tuple[Symbol, ...] | None = None,
) -> Profile:
    used, renumbered = np.unique(symbol, return_inverse=True)
    every = symbols or profile.symbols
    return build(
        [every[i] for i in used.tolist()],
        renumbered.reshape(-1),
        parents,
        profile.metrics,
        own,
        absorbed,
        profile.whole,
        tables,
    )


def _following(tables: Tables, new_nodes: Nodes) -> Tables:
    """Tables with the kernels of nodes moved along."""
    kernels: dict[int, int] = {}
    for node, kernel in tables.node_kernels.items():
        if (new := int(new_nodes[node])) >= 0:
            kernels.setdefault(new, kernel)
    return replace(tables, node_kernels=kernels)
