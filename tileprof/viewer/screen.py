"""Folding a tree until it is a screen, for a reader who chose no threshold.

In: a selection with all of its nodes, and which of them happen once (set-up, imports).  Out: the
selection with its largest nodes. What goes on is measured by what goes on, and set-up and imports
by all: beside libraries that take long to load, a short program would be out of sight. The hottest
kernel or operation is always there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.profile import DEVICE_WORK, SETUP, Profile
from tileprof.profile.transform.frames import is_module
from tileprof.profile.transform.operations import with_ancestors
from tileprof.profile.tree.forest import nearest
from tileprof.viewer.options import MOST_LINES, THRESHOLDS
from tileprof.viewer.selection import Selection, folded_since, pruned, waiting

Mask = npt.NDArray[np.bool_]
Once = Callable[[Profile], Mask]
"""Tells of a profile which nodes at the top happen once."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Wholes that shares are of: all, and what goes on; 0 where that is all, or nothing."""

    whole: float
    steps: float


def fitted(whole: Selection, once: Once, lines: Callable[[Selection], int]) -> Selection:
    """Return the selection folded by the least threshold that gives a screen.

    Where many nodes are alike, so that no threshold gives about a screen, its largest nodes are.
    `lines` counts the lines that a selection takes.
    """
    if not whole.metric or not len(whole.profile):
        return whole
    values, steps = _values(whole), _steps(whole.profile, once)
    tops = whole.profile.parents < 0
    sums = _Sums(float(values[tops].sum()), float(values[tops & steps].sum()))
    reason = "below {:g} %"
    if sums.steps:
        reason += " outside set-up and imports (in these: of all)"
    # Whatever a larger threshold leaves is in what the least one leaves.
    least = _largest_by(whole, THRESHOLDS[0], once, sums)
    found, more = least, 0
    for threshold in THRESHOLDS:
        found = _largest_by(least, threshold, once, sums)
        count = lines(found)
        if count <= MOST_LINES:
            break
        more = len(found.profile)
    if more and not MOST_LINES // 2 <= count <= MOST_LINES:
        found = _most_that_fit(least, more, once, sums, lines)
        return folded_since(whole, found, "no larger than these")
    return folded_since(whole, found, reason.format(threshold))


def _largest_by(selection: Selection, threshold: float, once: Once, sums: _Sums) -> Selection:
    """Return the nodes that are no smaller than a percentage, and the hottest one."""
    kept = _hottest(selection, once) | (_shares(selection, once, sums) >= threshold / 100)
    if (open_long := waiting(selection.profile, selection.metric, threshold / 100)) is not None:
        kept |= open_long
    return pruned(selection, 100, kept)


def _most_that_fit(
    selection: Selection, most: int, once: Once, sums: _Sums, lines: Callable[[Selection], int]
) -> Selection:
    order = np.argsort(-_shares(selection, once, sums), kind="stable")
    hottest = _hottest(selection, once)
    few, found = 0, pruned(selection, 100, hottest)
    while most - few > 1:
        count = (few + most) // 2
        kept = hottest.copy()
        kept[order[:count]] = True
        tried = pruned(selection, 100, kept)
        if lines(tried) <= MOST_LINES:
            few, found = count, tried
        else:
            most = count
    return found


def _shares(selection: Selection, once: Once, sums: _Sums) -> npt.NDArray[np.float64]:
    """Return the part of all that each node is, or of what goes on where it belongs there."""
    values = _values(selection)
    of = np.where(_steps(selection.profile, once), sums.steps or sums.whole, sums.whole)
    return np.where(of > 0, values / np.where(of > 0, of, 1), 0.0)


def _values(selection: Selection) -> npt.NDArray[np.float64]:
    return np.nan_to_num(np.abs(selection.profile.total(selection.metric).astype(np.float64)))


def _steps(profile: Profile, once: Once) -> Mask:
    """Return what goes on, below tops that do not happen once; none where all or none is."""
    late, tops = once(profile), profile.parents < 0
    if not (late & tops).any() or late[tops].all():
        return np.zeros(len(profile), bool)
    return ~late[nearest(profile.parents, tops)]


def _hottest(selection: Selection, once: Once) -> Mask:
    """Return the kernel or operation that takes most, and the one that the largest nodes lead to.

    Both are one of a module, and no set-up's, if there are any.
    """
    profile, values = selection.profile, _values(selection)
    setup = np.array([each.phase.startswith(SETUP) for each in profile.symbols], bool)
    modules = np.array([is_module(each) for each in profile.symbols], bool)[profile.symbol]
    in_module, on = nearest(profile.parents, modules) >= 0, _steps(profile, once)
    steps = ~setup[profile.symbol] & (on if on.any() else True)
    found = np.zeros(len(profile), bool)
    for wanted in (DEVICE_WORK, ("op",)):
        chosen = np.array([each.kind in wanted for each in profile.symbols], bool)[profile.symbol]
        for nodes in (chosen & steps & in_module, chosen & steps, chosen):
            held = np.where(nodes, values, 0)
            if held.max() > 0:
                found[[int(held.argmax()), _led_to(profile, values, held > 0)]] = True
                return found
    return found


def _led_to(profile: Profile, values: npt.NDArray[np.float64], ends: Mask) -> int:
    """Return the first of such nodes on the way down through the largest nodes that lead to any."""
    below = np.flatnonzero(with_ancestors(profile, ends))
    order = below[np.argsort(-values[below], kind="stable")]
    largest: dict[int, int] = {}
    for node, above in zip(order.tolist(), profile.parents[order].tolist(), strict=True):
        largest.setdefault(above, node)
    at = largest[-1]
    while not ends[at]:
        at = largest[at]
    return at
