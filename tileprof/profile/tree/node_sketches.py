"""Sketches of the nodes of a tree: they go where the node's values go.

In: sketches by node and metric.  Out: those of another tree, or of whole subtrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from tileprof.profile.metrics import Index
from tileprof.profile.sketch import Sketch, merged
from tileprof.profile.tree.forest import depths, levels

NodeSketches: TypeAlias = Mapping[tuple[int, str], Sketch]
"""Sketches of values, keyed by (node id, name of the metric)."""


def carried(sketches: NodeSketches, to: Index) -> dict[tuple[int, str], Sketch]:
    """Move each node's sketches to node `to[node]` (-1: nowhere) of another tree, merging them."""
    if not sketches:
        return {}
    targets = to.tolist()
    return merged(
        ((targets[node], metric), sketch)
        for (node, metric), sketch in sketches.items()
        if targets[node] >= 0
    )


def subtrees(parents: Index, *parts: Iterable[tuple[int, Sketch]]) -> dict[int, Sketch]:
    """Return the sketch of each node with all nodes below it, where there is any."""
    found = merged(chain(*parts))
    for level in reversed(levels(depths(parents))[1:]):
        held = [node for node in level.tolist() if node in found]
        above = dict.fromkeys(int(parents[node]) for node in held)
        inside = [(int(parents[node]), found[node]) for node in held]
        found |= merged([*((node, found[node]) for node in above if node in found), *inside])
    return found
