"""A tree laid out along an axis: whole-number weights, names, and the order of the walk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.profile.storage.limits import EXPORT_BYTES


def held(profile: Profile, metric: str) -> list[int]:
    """Return what each node holds outside its children, as whole numbers of the metric's unit.

    Own values and what was folded into the node; never negative, and at least 1 where positive.
    """
    values = np.nan_to_num(profile.own[metric].astype(np.float64))
    if metric in profile.absorbed:
        values = values + np.nan_to_num(profile.absorbed[metric].astype(np.float64))
    rounded = np.where(values > 0, np.maximum(np.rint(values), 1), 0)
    return [int(value) for value in rounded.tolist()]


def called(profile: Profile) -> list[str]:
    """Return node names for a format without phases and places.

    `mm (backward)` where a phase begins; a file's own code is called after the file.
    """
    names = [
        place.file.replace("\\", "/").rpartition("/")[2]
        if name == "<module>" and place is not None
        else name
        for name, place in zip(profile.names, profile.locations)
    ]
    phases, parents = profile.phases, profile.parents.tolist()
    above = [phases[parent] if parent >= 0 else "" for parent in parents]
    return [
        f"{name} ({phase})" if phase not in ("", outer) else name
        for name, phase, outer in zip(names, phases, above)
    ]


def check_paths(profile: Profile, names: Sequence[str], nodes: npt.NDArray[np.bool_]) -> None:
    """Raise UsageError where the paths of `nodes` are too long to be written out one by one."""
    length = np.array([len(name) + 1 for name in names], np.int64)
    for level in profile.levels[1:]:
        length[level] += length[profile.parents[level]]
    size = int(length[nodes].sum())
    if size > EXPORT_BYTES:
        raise UsageError(
            f"the paths of the tree take {size:,} bytes, more than {EXPORT_BYTES:,}",
            hint="Cut the tree before: limit_depth(profile, 100), or prune(profile, 'time', 0.01).",
        )


def widths(weights: list[int], parents: list[int]) -> list[int]:
    """Return each subtree's exact sum, so that children always fit into their parent."""
    sums = list(weights)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            sums[parents[node]] += sums[node]
    return sums


def walk(parents: list[int]) -> Iterator[tuple[int, int]]:
    """Yield every node with its depth, before its children, siblings in first-seen order."""
    children: list[list[int]] = [[] for _ in parents]
    pending: list[tuple[int, int]] = []
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            children[parents[node]].append(node)
        else:
            pending.append((node, 0))
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending += [(child, depth + 1) for child in children[node]]
