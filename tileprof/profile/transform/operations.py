"""Operations on profiles: each returns a new one and conserves what the program amounts to.

`merge` adds profiles up; `filter_nodes`, `prune` and `limit_depth` cut subtrees off and fold their
totals into the node above; `leave_out` takes single nodes out of paths; `bottom_up` and `flat` hang
the same numbers up another way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import metrics as law
from tileprof.profile.sketch import merged
from tileprof.profile.transform.join import side_by_side
from tileprof.profile.transform.regroup import cut, keys_of, rehang
from tileprof.profile.tree.forest import Grown, Nodes, Weights, merge_siblings, nearest, turn_over
from tileprof.profile.tree.model import Profile

Mask = npt.NDArray[np.bool_]


def merge(profiles: Sequence[Profile]) -> Profile:
    """Add profiles up: nodes of one path become one; a later profile wins in `last` metrics.

    Raises `UsageError` where two profiles declare a metric differently.
    """
    forest = side_by_side(profiles)
    return rehang(forest, merge_siblings(forest.parents, keys_of(forest)))


def filter_nodes(
    profile: Profile, include: str | None = None, exclude: str | None = None
) -> Profile:
    """Keep the paths through nodes whose name matches `include`; cut off those matching `exclude`.

    A regular expression may match anywhere in the name. Ancestors and subtrees of an included node
    stay; an excluded node goes with its subtree, and wins over an inclusion. Raises `UsageError`
    where an expression is malformed.
    """
    keep = np.ones(len(profile), bool)
    if include is not None:
        found = _matching(profile, include)
        keep = with_ancestors(profile, found) | _with_subtrees(profile, found)
    if exclude is not None:
        keep &= ~_with_subtrees(profile, _matching(profile, exclude))
    return cut(profile, keep)


def prune(
    profile: Profile, metric: str, share: float, kept: npt.NDArray[np.bool_] | None = None
) -> Profile:
    """Cut off what holds less than `share` (0 to 1) of the program's `metric`.

    A node stays where it or anything below it reaches the share, or is among those `kept`.
    Raises `UsageError` for a metric that does not add up by sum, and for a share outside 0 to 1.
    """
    if profile.metric(metric).adds != "sum":
        raise UsageError(
            f"`{metric}` has no shares to prune by: it does not add up by sum",
            hint=f"Prune by one of {', '.join(_sums(profile)) or 'none'}.",
        )
    if not 0 <= share <= 1:
        raise UsageError(f"a share is between 0 and 1, not {share}")
    least = abs(profile.whole[metric]) * share
    enough = np.abs(profile.total(metric)) >= least
    return cut(profile, with_ancestors(profile, enough if kept is None else enough | kept))


def limit_depth(profile: Profile, depth: int) -> Profile:
    """Cut off everything below `depth` levels; 1 leaves the top level."""
    if depth < 1:
        raise UsageError(f"a tree of depth {depth} has no nodes", hint="Use a depth of 1 or more.")
    return cut(profile, profile.depths < depth)


def leave_out(profile: Profile, nodes: Mask) -> tuple[Profile, Nodes]:
    """Leave nodes out, each with its own values to the nearest node above that stays.

    What is below them hangs on that node, where siblings that match become one; those at the top
    stay. The totals stay the same. Also return where each node went: its new place, or that of the
    node above.
    """
    kept = ~nodes | (profile.parents < 0)
    profile = _without_visits(profile, ~kept)
    home = nearest(profile.parents, kept)
    ids = np.flatnonzero(kept)
    number = np.full(len(profile) + 1, -1, np.int64)
    number[ids] = np.arange(len(ids))
    # The extra last slot is what the top leads to.
    above = number[np.append(home, -1)[profile.parents[ids]]]
    grown = merge_siblings(above.astype(np.int32), keys_of(profile)[ids])
    target = grown.target[number[home]]
    made = rehang(profile, Grown(grown.parents, ids[grown.first], target, target))
    return made, target


def _without_visits(profile: Profile, nodes: Mask) -> Profile:
    """Turn visits of nodes into what they have absorbed: they are no visits of the nodes above."""
    if "count" not in profile.metrics:
        return profile
    visits, taken = profile.own["count"], profile.absorbed["count"]
    sketches, parts = profile.tables.sketches, profile.tables.absorbed_sketches
    moved = {key: sketch for key, sketch in sketches.items() if nodes[key[0]]}
    return replace(
        profile,
        own={**profile.own, "count": np.where(nodes, 0, visits)},
        absorbed={**profile.absorbed, "count": taken + np.where(nodes, visits, 0)},
        tables=replace(
            profile.tables,
            sketches={key: each for key, each in sketches.items() if key not in moved},
            absorbed_sketches=merged([*parts.items(), *moved.items()]),
        ),
    )


def bottom_up(profile: Profile, metric: str, share: float = 1e-4, callers: int = 64) -> Profile:
    """Hang the tree up by the nodes that hold values of their own, their callers below them.

    A top-level node's total is all that was recorded at nodes of that symbol; its children split it
    by caller. Callers are followed up to `callers` levels, only from nodes with an own value of
    `metric`, and not beyond a node with less than `share` (0 to 1) of what the program has of it:
    a full turn-over of a deep tree is many times its size. The order is first-seen.
    """
    column = profile.metric(metric)
    own, absorbed = profile.own[metric], profile.absorbed[metric]
    if column.adds != "sum":
        held = law.present(column, own) | law.present(column, absorbed)
        return _turned_over(profile, held.astype(np.float64), 0, callers)
    weight = np.abs(own) + np.abs(absorbed).astype(np.float64)
    return _turned_over(profile, weight, float(weight.sum()) * share, callers)


def flat(profile: Profile) -> Profile:
    """Return one top-level node per symbol, with all that was recorded at nodes of that symbol."""
    return _turned_over(profile, np.zeros(len(profile)), 0, 0)


def _turned_over(profile: Profile, weight: Weights, least: float, callers: int) -> Profile:
    nodes = np.flatnonzero(with_values(profile))
    keys = keys_of(profile)
    return rehang(profile, turn_over(profile.parents, keys, nodes, weight, least, callers))


def with_values(profile: Profile) -> Mask:
    """Return the nodes that hold a value, recorded or absorbed."""
    found = np.zeros(len(profile), bool)
    for name, metric in profile.metrics.items():
        found |= law.present(metric, profile.own[name])
        found |= law.present(metric, profile.absorbed[name])
    return found


def regular(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of a user's; UsageError, with the place, for one that is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        place = f"\n    {pattern}\n    {' ' * (error.pos or 0)}^" if error.pos is not None else ""
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error.msg}{place}",
            hint="Escape characters with a meaning of their own: \\( \\[ \\* \\+ \\?",
        ) from None


def _matching(profile: Profile, pattern: str) -> Mask:
    found = regular(pattern)
    by_symbol = [found.search(symbol.name) is not None for symbol in profile.symbols]
    return np.array(by_symbol, bool)[profile.symbol]


def _with_subtrees(profile: Profile, found: Mask) -> Mask:
    inside = found.copy()
    for level in profile.levels[1:]:
        inside[level] |= inside[profile.parents[level]]
    return inside


def with_ancestors(profile: Profile, found: Mask) -> Mask:
    """Return the nodes of a mask and all nodes above them."""
    above = found.copy()
    for level in reversed(profile.levels[1:]):
        above[profile.parents[level[above[level]]]] = True
    return above


def _sums(profile: Profile) -> list[str]:
    return [metric.name for metric in profile.metrics.values() if metric.adds == "sum"]


def without_estimates(profile: Profile) -> Profile:
    """Return the profile without metrics that are estimates for rules of reports alone."""
    kept = {name: each for name, each in profile.metrics.items() if not law.is_estimate(name)}
    if len(kept) == len(profile.metrics):
        return profile
    return replace(
        profile,
        metrics=kept,
        own={name: each for name, each in profile.own.items() if name in kept},
        absorbed={name: each for name, each in profile.absorbed.items() if name in kept},
        whole={name: each for name, each in profile.whole.items() if name in kept},
    )
