"""Shapes of forests in columns, without metrics: depths, levels, siblings that become one node.

A forest is a column of parents, -1 at the top, each parent before its children.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile.metrics import Index

Nodes: TypeAlias = npt.NDArray[np.int64]
Weights: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grown:
    """A forest made of nodes of another one."""

    parents: Nodes
    """Parent of each new node."""
    first: Nodes
    """First old node that went into each new node."""
    target: Nodes
    """New node that an old node's values go to, for each old node; -1 if there is none."""
    top: Nodes
    """New node that stands for each old node: its target, or its root in an inverted tree."""


def depths(parents: Index) -> npt.NDArray[np.int32]:
    """Return, per node, how many nodes are above it."""
    depth = (parents >= 0).astype(np.int32)
    above = parents.copy()
    # Each round doubles the distance that `above` looks up: few rounds, however deep.
    while (pending := np.flatnonzero(above >= 0)).size:
        up = above[pending]
        depth[pending] += depth[up]
        above[pending] = above[up]
    return depth


def nearest(parents: Index, chosen: npt.NDArray[np.bool_]) -> Nodes:
    """Return, per node, the innermost chosen node that it is or is in; -1 where there is none."""
    # The extra last slot is what -1, the parent of the top, leads to. Each round follows twice as
    # many parents at once: few rounds, however deep the forest is.
    found = np.append(np.where(chosen, np.arange(len(chosen)), parents), -1).astype(np.int64)
    while not np.array_equal(found, further := found[found]):
        found = further
    return found[:-1]


def levels(depth: npt.NDArray[np.int32]) -> list[Nodes]:
    """Return the nodes of each depth, in their order."""
    if not depth.size:
        return []
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def numbered(values: Nodes) -> tuple[Nodes, Nodes]:
    """Number distinct values by first appearance: where each is first, and each one's number."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse.reshape(-1)]


def merge_siblings(parents: Index, keys: Nodes) -> Grown:
    """Make one node of all siblings with one key, from the top down; order is first-seen.

    `keys` is one number per node, not below 0.
    """
    span = int(keys.max(initial=0)) + 1
    target = np.full(len(parents), -1, np.int64)
    new_parents: list[Nodes] = []
    firsts: list[Nodes] = []
    count = 0
    for level in levels(depths(parents)):
        above = np.where(parents[level] < 0, -1, target[parents[level]])
        first, number = numbered((above + 1) * span + keys[level])
        target[level] = count + number
        new_parents.append(above[first])
        firsts.append(level[first])
        count += first.size
    return Grown(_joined(new_parents), _joined(firsts), target, target)


def turn_over(
    parents: Index, keys: Nodes, nodes: Nodes, weight: Weights, least: float, levels_up: int
) -> Grown:
    """Hang `nodes` up by key at the top, with the callers of those that weigh something below.

    Callers are followed for `levels_up` levels, and not beyond a new node that weighs less than
    `least`: that bounds the result. The target of a node is where its path ends, so that each new
    node's subtree holds the nodes that were reached through it.
    """
    span = int(keys.max(initial=0)) + 1
    target = np.full(len(parents), -1, np.int64)
    first, number = numbered(keys[nodes])
    target[nodes] = number
    top = target.copy()
    new_parents, firsts = [np.full(first.size, -1, np.int64)], [nodes[first]]
    count = first.size
    active = nodes[weight[nodes] > 0]
    caller = parents[active]
    for _ in range(levels_up):
        heavy = np.bincount(target[active], weight[active], count) >= least
        going = (caller >= 0) & heavy[target[active]]
        active, caller = active[going], caller[going]
        if not active.size:
            break
        first, number = numbered(target[active] * span + keys[caller])
        new_parents.append(target[active][first])
        firsts.append(caller[first].astype(np.int64))
        target[active] = count + number
        count += first.size
        caller = parents[caller]
    return Grown(_joined(new_parents), _joined(firsts), target, top)


def _joined(parts: list[Nodes]) -> Nodes:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
