"""Trees by another dimension than calls: modules, phases of a training step, lines of the user's.

In: a profile with the frames that are to be shown.  Out: a profile with a node at the top for each
group, and below it the paths of what belongs there. Totals stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from tileprof.profile import metrics as law
from tileprof.profile.installed import is_installed
from tileprof.profile.node_names import LOADER_SCOPE, OPTIMIZER_SCOPE
from tileprof.profile.steps import SETUP
from tileprof.profile.transform.frames import is_module
from tileprof.profile.transform.operations import with_values
from tileprof.profile.transform.regroup import keys_of, rehang
from tileprof.profile.tree.forest import Grown, Nodes, merge_siblings, nearest
from tileprof.profile.tree.model import Profile, build
from tileprof.profile.tree.symbol import Symbol

Group = Literal["module", "phase", "line"]
"""Innermost module by its name in the model, or its class where that is not known; part of a
training step; innermost line of the user's files."""

_OPTIMIZER = re.compile(OPTIMIZER_SCOPE)
_LOADER = re.compile(rf"{LOADER_SCOPE}|.*DataLoader.*\.__next__$")
_OUTSIDE = {"module": "(no module)", "line": "(no line of the user's files)"}


def grouped(profile: Profile, group: Group) -> Profile:
    """Return the tree by a group; its nodes at the top are scopes with the groups' names."""
    if group == "phase":
        names, inside = _phases(profile), np.full(len(profile), -1, np.int64)
    else:
        wanted = is_module if group == "module" else _is_users
        inside = _nearest(profile, wanted)
        names = [
            _OUTSIDE[group] if at < 0 else _label(profile.symbols[profile.symbol[at]], group)
            for at in inside.tolist()
        ]
    return _hung_up(profile, names, inside)


def _label(symbol: Symbol, group: Group) -> str:
    place = symbol.location
    if group == "module" and symbol.module:
        return f"{symbol.module}{symbol.name.removeprefix(symbol.called).removesuffix('.forward')}"
    if group == "module" or place is None:
        return symbol.name.removesuffix(".forward")
    return place.short


def _is_users(symbol: Symbol) -> bool:
    place = symbol.location
    return symbol.kind == "frame" and place is not None and not is_installed(place.file)


def _nearest(profile: Profile, wanted: Callable[[Symbol], bool]) -> Nodes:
    """Return by node the innermost node of such a symbol that it is or is in; -1 for none."""
    chosen = np.array([wanted(each) for each in profile.symbols], bool)[profile.symbol]
    return nearest(profile.parents, chosen)


def _phases(profile: Profile) -> list[str]:
    """Return the part of a training step that each node belongs to."""
    optimizer = _nearest(profile, lambda symbol: bool(_OPTIMIZER.match(symbol.name))) >= 0
    loader = _nearest(profile, lambda symbol: bool(_LOADER.match(symbol.name))) >= 0
    found = []
    for node, phase in enumerate(profile.phases):
        if phase.startswith(SETUP):
            found.append(SETUP)
        elif optimizer[node]:
            found.append("optimizer")
        elif loader[node]:
            found.append("data")
        elif phase.endswith("backward"):
            found.append("backward")
        elif profile.kinds[node] == "memcpy":
            found.append("copies")
        else:
            found.append("forward and others")
    return found


def _hung_up(profile: Profile, names: list[str], inside: Nodes) -> Profile:
    """Hang the path of each node with values up below its group; paths begin below `inside`."""
    groups = {name: number for number, name in enumerate(dict.fromkeys(names))}
    whole = _with_roots(profile, list(groups))
    above, ends = profile.parents.tolist(), inside.tolist()
    # New nodes, the groups first: what is above each, and the node that each is of.
    parents, chosen = [-1] * len(groups), [*range(len(profile), len(whole))]
    places: dict[tuple[int, int], int] = {}
    target = np.full(len(whole), -1, np.int64)
    for node in np.flatnonzero(with_values(profile)).tolist():
        group = groups[names[node]]
        path, at = [], node
        while at >= 0 and at != ends[node] and (group, at) not in places:
            path.append(at)
            at = above[at]
        place = group if at < 0 or at == ends[node] else places[group, at]
        for each in reversed(path):
            parents.append(place)
            chosen.append(each)
            place = places[group, each] = len(chosen) - 1
        target[node] = place
    of = np.array(chosen, np.int64)
    grown = merge_siblings(np.array(parents, np.int32), keys_of(whole)[of])
    target[target >= 0] = grown.target[target[target >= 0]]
    return rehang(whole, Grown(grown.parents, of[grown.first], target, target))


def _with_roots(profile: Profile, names: list[str]) -> Profile:
    """Return the profile with further nodes at the top, without values."""
    symbols = [Symbol("scope", name) for name in names]

    def longer(columns: Mapping[str, law.Column]) -> dict[str, law.Column]:
        return {
            name: np.concatenate(
                [column, law.empty_column(profile.metrics[name], len(names)).astype(column.dtype)]
            )
            for name, column in columns.items()
        }

    return build(
        [*profile.symbols, *symbols],
        np.append(profile.symbol, len(profile.symbols) + np.arange(len(names))),
        np.append(profile.parents, np.full(len(names), -1)),
        profile.metrics,
        longer(profile.own),
        longer(profile.absorbed),
        profile.whole,
        profile.tables,
    )
