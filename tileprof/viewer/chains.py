"""Chains of nodes that only lead to one other, which a tree draws as one line.

In: a profile and the numbers by which it is drawn.  Out: `Chains`: the nodes that have a line, and
for each the nodes that stand on it before its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tileprof.profile import Column, Profile
from tileprof.profile.metrics import Index
from tileprof.profile.tree.forest import nearest
from tileprof.viewer.grid import Label
from tileprof.viewer.text import Glyphs, clean

_KINDS = ("frame", "op", "api")
"""Kinds of nodes that need no line of their own."""
_NEARLY_ALL = 0.98
"""Least share of a node's total that its one child has on the same line, if that is such a node.
What an operation takes on the host beside the one that it calls is a thousandth of both; a module
that calls another one, or a function of the user's, takes a little more."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The lines of a tree."""

    nodes: Index
    """Node of each line."""
    parents: Index
    """Line above each line; -1 at the top."""
    before: dict[int, tuple[int, ...]]
    """Nodes on the line of a node before it, from the top down."""


def every_node(profile: Profile) -> Chains:
    """Return a line for each node."""
    return Chains(np.arange(len(profile), dtype=np.int32), profile.parents, {})


def chains(profile: Profile, total: Column) -> Chains:
    """Return lines; a node that only leads to one child is on the child's."""
    leads = _leads_on(profile, total)
    parents, nodes = profile.parents, np.flatnonzero(~leads).astype(np.int32)
    number = np.full(len(profile) + 1, -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    # The extra last slot is what -1, the parent of the top, leads to.
    above = np.append(nearest(parents, ~leads), -1)[parents[nodes]]
    before = {}
    for node in nodes[np.append(leads, False)[parents[nodes]]].tolist():
        held, at = list[int](), int(parents[node])
        while at >= 0 and leads[at]:
            held.append(at)
            at = int(parents[at])
        before[node] = tuple(reversed(held))
    return Chains(nodes, number[above], before)


def _leads_on(profile: Profile, total: Column) -> npt.NDArray[np.bool_]:
    """Return the nodes that only lead to their one child, which has nearly all of their total."""
    parents = profile.parents
    lower = np.flatnonzero(parents >= 0)
    children = np.bincount(parents[lower], minlength=len(profile))
    kinds = np.array([symbol.kind in _KINDS for symbol in profile.symbols], bool)[profile.symbol]
    only = lower[children[parents[lower]] == 1]
    up = parents[only]
    # A phase is told where it begins.
    same = np.array([profile.phases[a] == profile.phases[b] for a, b in zip(only, up)], bool)
    held, whole = total[only].astype(float), total[up].astype(float)
    nearly = kinds[only] & (held >= _NEARLY_ALL * whole)
    equal = np.isclose(held, whole, rtol=1e-9, atol=0) | nearly
    found = np.zeros(len(profile), bool)
    found[up[same & equal & kinds[up]]] = True
    return found


def joined(profile: Profile, label: Label, before: tuple[int, ...], glyphs: Glyphs) -> Label:
    """Return the label of a node behind the names of those that lead to it alone."""
    if not before:
        return label
    arrow = f" {glyphs.arrow} "
    parts = [_named(profile, node, glyphs) for node in before if profile.kinds[node] != "api"]
    if parts:
        parts = _without_repeats(parts, glyphs)
        # The first name is what somebody wrote; those between it and the node are worth least.
        more = f"{glyphs.ellipsis}{len(parts) - 1}{arrow}" if len(parts) > 1 else ""
        starts = (arrow.join(parts) + arrow, parts[0] + arrow + more)
        names = (label.name, *label.shorter)
        whole = [start + name for start in dict.fromkeys(starts) for name in names]
        label = replace(label, name=whole[0], shorter=tuple(whole[1:]))
    first = before[0]
    above = int(profile.parents[first])
    phase = profile.phases[first]
    begins = above < 0 or profile.phases[above] != phase
    return replace(label, mark=phase) if begins else label


_CYCLE = 4
"""Most functions that call each other in turn and are told as one recursion."""
_TURNS = 3
"""Least number of turns of a recursion that are told as one."""


def _without_repeats(parts: list[str], glyphs: Glyphs) -> list[str]:
    """Return names where a recursion stands once, with how often it turns: `(a → b) ×100`."""
    found, at = list[str](), 0
    times = "x" if glyphs.arrow.isascii() else "×"
    while at < len(parts):
        for length in range(1, _CYCLE + 1):
            turns = 1
            while parts[at : at + length] == parts[at + turns * length : at + (turns + 1) * length]:
                turns += 1
            if turns >= _TURNS:
                break
        else:
            found.append(parts[at])
            at += 1
            continue
        names = f" {glyphs.arrow} ".join(parts[at : at + length])
        found.append(f"({names}) {times}{turns:,}" if length > 1 else f"{names} {times}{turns:,}")
        at += length * turns
    return found


def _named(profile: Profile, node: int, glyphs: Glyphs) -> str:
    place = profile.locations[node]
    name = clean(profile.names[node], glyphs)
    if profile.kinds[node] != "frame" or place is None or not place.line:
        return name
    return f"{name} {clean(place.short, glyphs)}"
