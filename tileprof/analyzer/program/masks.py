"""Columns and masks over the nodes of a profile, an entry per node.

In: a profile.  Out: what nodes recorded, which nodes are such, and which nodes these are in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile import Profile, Symbol
from tileprof.profile.tree import forest

Column: TypeAlias = npt.NDArray[np.float64]
Ids: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def own(profile: Profile, metric: str) -> Column:
    """Return what nodes recorded themselves, 0 where nothing."""
    if metric not in profile.metrics:
        return np.zeros(len(profile))
    return np.nan_to_num(profile.own[metric].astype(np.float64))


def where(profile: Profile, wanted: Callable[[Symbol], bool]) -> Mask:
    """Return the nodes that are such; asked once for all that share a symbol."""
    return np.array([wanted(each) for each in profile.symbols], bool)[profile.symbol]


def nodes_of(mask: Mask) -> tuple[int, ...]:
    """Return the numbers of the nodes of a mask."""
    return tuple(np.flatnonzero(mask).tolist())


def kind(profile: Profile, *kinds: str) -> Mask:
    """Return the nodes of these kinds."""
    return where(profile, lambda symbol: symbol.kind in kinds)


def backward(profile: Profile) -> Mask:
    """Return the nodes of backward passes."""
    return where(profile, lambda symbol: symbol.phase.endswith("backward"))


def below(profile: Profile, mask: Mask) -> Mask:
    """Return the nodes of a mask and all below them."""
    found: Mask = nearest(profile, mask) >= 0
    return found


def nearest(profile: Profile, mask: Mask) -> Ids:
    """Return by node the innermost of a mask that it is or is in; -1 for none."""
    return forest.nearest(profile.parents, mask)


def outermost(profile: Profile, mask: Mask) -> Mask:
    """Return those of a mask that no other one of it is around."""
    inside = np.zeros_like(mask)
    lower = profile.parents >= 0
    inside[lower] = nearest(profile, mask)[profile.parents[lower]] >= 0
    return mask & ~inside


def inclusive(profile: Profile, column: Column) -> Column:
    """Return by node the sum of a column over it and all below it."""
    total = column.copy()
    for level in reversed(profile.levels[1:]):
        np.add.at(total, profile.parents[level], total[level])
    return total
