"""Places inside kernels, and what a kernel took with all of them.

A recorder that measures the inside of a kernel takes the time of each place (`T.scope`, tile op,
line) out of the kernel's own value and puts it at a node below the kernel. So the own value of a
kernel is what no place holds, and only the sum of both is what the kernel took. Everything that
reports the cost of a kernel (trees, reports, pages) gets it from `whole_kernels`.

In: a profile.  Out: masks and columns with one entry per node.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tileprof.profile.metrics import Column
from tileprof.profile.tree.model import Profile

INSIDE = ("site", "line")
"""Kinds of nodes that are places inside a kernel."""
DEVICE_WORK = ("kernel", "memcpy", "memset")
"""Kinds of nodes that are work of a device."""


def inside_kernels(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return, per node, whether it is a place inside a kernel, or below one."""
    inside: npt.NDArray[np.bool_] = np.array(_holders(profile)) != np.arange(len(profile))
    return inside


def kernels_around(profile: Profile) -> npt.NDArray[np.int64]:
    """Return the kernel of each kernel and of what lies inside of one; -1 elsewhere."""
    found = np.full(len(profile), -1)
    for node, (kind, parent) in enumerate(zip(profile.kinds, profile.parents.tolist())):
        if kind == "kernel":
            found[node] = node
        elif kind in INSIDE and parent >= 0:
            found[node] = found[parent]
    return found


def whole_kernels(profile: Profile, metric: str) -> Column:
    """Return, per node, its own value of a summing metric, that of a kernel with its inside.

    What operations folded into a node counts as its own. Places inside a kernel have 0 and their
    kernel has their sum, so the column still adds up to what the program has of the metric; only
    places without a node above them are left out. Visits (`count`) of a place are no launches of
    its kernel: use the own values of `count`.
    """
    values = profile.own[metric] + profile.absorbed[metric]
    holder = np.array(_holders(profile), np.int64)
    held = holder >= 0
    found = np.zeros_like(values)
    np.add.at(found, holder[held], values[held])
    return found


def _holders(profile: Profile) -> list[int]:
    """Return, per node, the node that holds its value; -1 for places that nothing is above."""
    kinds = [symbol.kind in INSIDE for symbol in profile.symbols]
    holders = list(range(len(profile)))
    inside = [kinds[symbol] for symbol in profile.symbol.tolist()]
    if not any(inside):
        return holders
    for node, parent in enumerate(profile.parents.tolist()):
        if parent >= 0 and inside[parent]:
            inside[node], holders[node] = True, holders[parent]
        elif inside[node]:
            holders[node] = parent
    return holders
