"""States of a kernel as tables: the meaning of marks' numbers, for many marks at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof import ir

Ints = NDArray[np.int64]

_NO_SITE = -1


@dataclass(frozen=True, slots=True)
class States:
    """The states of a kernel as tables."""

    depth: int
    """Number of sites on the longest path."""
    fresh: NDArray[np.uint8]
    """(states): how many sites go on."""
    deep: NDArray[np.uint8]
    """(states): how many sites are around it."""
    innermost: Ints
    """(states): -1 where there is no site."""
    site: Ints
    """(depth, states): the site of that depth around each state; -1 where it does not reach it."""
    inside: NDArray[np.float64]
    """(states, sites): 1 where a state is inside a site."""
    parents: Ints
    """(sites): position of the site around each; -1."""
    ids: Ints
    """(sites): site ids."""

    @classmethod
    def of(cls, sites: Sequence[ir.Site], states: Sequence[ir.State]) -> States:
        """Return the states of a kernel's own tables."""
        place = {site.id: at for at, site in enumerate(sites)}
        parents = [_NO_SITE if site.parent is None else place[site.parent] for site in sites]
        paths = [path_of(place.get(state.site), parents) for state in states]
        depth = max(map(len, paths), default=0)
        of_depth = np.full((depth, len(states)), _NO_SITE)
        inside = np.zeros((len(states), len(sites)))
        for number, path in enumerate(paths):
            of_depth[: len(path), number] = path
            inside[number, path] = 1
        fresh = np.array([state.fresh for state in states], np.uint8)
        deep = np.array([len(path) for path in paths], np.uint8)
        innermost = np.array([path[-1] if path else _NO_SITE for path in paths], np.int64)
        ids = np.array([site.id for site in sites], np.int64)
        tree = np.array(parents, np.int64)
        return cls(depth, fresh, deep, innermost, of_depth, inside, tree, ids)


def path_of(
    site: int | None, parents: Mapping[int, int | None] | Sequence[int | None]
) -> list[int]:
    """Return the sites around a site and itself, outermost first; nothing for None or -1.

    parents: the site around each.
    """
    path: list[int] = []
    while site is not None and site != _NO_SITE:
        path.insert(0, site)
        site = parents[site]
    return path
