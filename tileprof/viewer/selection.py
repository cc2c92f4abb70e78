"""Selection of what is shown and folded: filters, direction, depth and threshold, in that order.

In: a profile and the options of a view.  Out: the profile to draw, and what each step took away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import (
    Frames,
    Profile,
    bottom_up,
    filter_nodes,
    flat,
    grouped,
    inside_kernels,
    limit_depth,
    prune,
    with_frames,
    with_whole_modules,
)
from tileprof.profile.imports import below_imports
from tileprof.profile.transform.frames import Shown, of_libraries
from tileprof.profile.transform.groups import OUTSIDE
from tileprof.profile.transform.operations import leave_out
from tileprof.profile.transform.regroup import HIDDEN, cut
from tileprof.viewer.columns import default_metric, require
from tileprof.viewer.options import ViewOptions

_ELAPSED = "elapsed_time"
"""Metric that scopes of coroutines and generators have beside the time in which they ran."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One step that left nodes out: why, how many, and how much of the ranking metric they held."""

    reason: str
    nodes: int
    amount: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes to draw; what they hold themselves plus the folds is the whole."""

    profile: Profile
    metric: str
    """Metric that decides which nodes are small and counts folds; '' where none adds up."""
    folds: tuple[Fold, ...]
    left_out: int = 0
    """Number of frames that were left out of paths, their values at the nodes above."""


def shown_metrics(profile: Profile, options: ViewOptions) -> tuple[str, ...]:
    """Return the columns' names; UsageError, listing what exists, for an unknown one."""
    if not options.metrics:
        waits = (_ELAPSED,) if profile.whole.get(_ELAPSED) else ()
        return (default_metric(profile), *waits)
    for name in options.metrics:
        require(profile, name)
    return tuple(dict.fromkeys(options.metrics))


def select(
    profile: Profile, options: ViewOptions, default_threshold: float, frames: Frames = "all"
) -> Selection:
    """Apply `options`; `default_threshold` (percent) and `frames` hold where they name none.

    Raises UsageError for an unknown metric, a regular expression that is none, or a number out of
    its range.
    """
    threshold = default_threshold if options.threshold is None else options.threshold
    _check(threshold)
    return pruned(arranged(profile, options, frames), threshold)


class Framed(Protocol):
    """Leaves frames out of a profile, as `with_frames` does."""

    def __call__(
        self, profile: Profile, frames: Frames, include: str | None, layers: str | None
    ) -> Shown:
        """Return the profile with the frames that are wanted."""


def arranged(
    profile: Profile, options: ViewOptions, frames: Frames = "all", framed: Framed = with_frames
) -> Selection:
    """Apply `options` but the threshold; errors as of `select`.

    `framed` is for who remembers what `with_frames` returned for the profile before.
    """
    metric = _ranking(profile, options)
    folds: list[Fold] = []
    current = profile
    if options.include is not None or options.exclude is not None:
        kept = filter_nodes(current, include=options.include, exclude=options.exclude)
        given = (("-i", options.include), ("-e", options.exclude))
        by = " and ".join(name for name, value in given if value is not None)
        folds.append(_fold(f"left out by {by}", current, kept, metric))
        current = kept
    left_out = 0
    match options.mode:
        case "top-down":
            shown = framed(current, options.frames or frames, options.include, options.layers)
            if options.group != "line" and (options.frames or frames) == "user":
                shown = with_whole_modules(shown)
            current, left_out = shown.profile, shown.left_out
            current = current if options.group is None else grouped(current, options.group)
        case "bottom-up":
            kernels = _kernels_whole(_imports_whole(current, options.frames or frames))
            current = _own_visits(bottom_up(kernels, metric) if metric else flat(kernels))
            if (options.frames or frames) != "all":
                callers = of_libraries(current, kernels) & (current.parents >= 0)
                current, left_out = leave_out(current, callers)[0], int(callers.sum())
        case "flat":
            current = flat(_kernels_whole(_imports_whole(current, options.frames or frames)))
        case _:
            assert_never(options.mode)
    if options.depth is not None:
        kept = limit_depth(current, options.depth)
        folds.append(_fold(f"deeper than -d {options.depth}", current, kept, metric))
        current = kept
    return Selection(current, metric, tuple(fold for fold in folds if fold.nodes), left_out)


def pruned(
    selection: Selection, threshold: float, kept: npt.NDArray[np.bool_] | None = None
) -> Selection:
    """Fold what is below a percentage of the whole, but `kept` and what leads there."""
    current, metric = selection.profile, selection.metric
    if threshold <= 0 or not metric:
        return selection
    open_long = waiting(current, metric, threshold / 100)
    masks = [each for each in (open_long, kept) if each is not None]
    spared = np.logical_or.reduce(masks) if masks else None
    rest = prune(current, metric, threshold / 100, spared)
    return folded_since(selection, replace(selection, profile=rest), f"below {threshold:g} %")


def folded_since(before: Selection, after: Selection, reason: str) -> Selection:
    """Return `after` with what it has less than `before` as one fold."""
    fold = _fold(reason, before.profile, after.profile, before.metric)
    return replace(after, folds=(*before.folds, fold) if fold.nodes else before.folds)


def waiting(profile: Profile, metric: str, share: float) -> npt.NDArray[np.bool_] | None:
    """Return scopes of coroutines that were open for a notable time, mostly run by others."""
    if _ELAPSED not in profile.own or profile.metrics[metric].unit != "ns":
        return None
    return np.asarray(profile.own[_ELAPSED] >= max(profile.whole[metric] * share, 1))


def _kernels_whole(profile: Profile) -> Profile:
    """The tree without places inside kernels: a kernel apart from its scopes has no true rates."""
    return cut(profile, ~inside_kernels(profile))


_MEMBERS = {
    "module": "forward pass of a module",
    "kernel": "kernel, copy or fill",
    "line": "line of the user's files",
}
"""Contents of each group; other groups say themselves that there is nothing."""


def check_groups(profile: Profile, options: ViewOptions) -> None:
    """Raise UsageError where all of a profile that is shown by a group is in none."""
    group, tops = options.group, [profile.names[top] for top in profile.roots()]
    if group in _MEMBERS and tops and all(name in OUTSIDE for name in tops):
        others = " or ".join(f"`--group {each}`" for each in ("line", "thread") if each != group)
        raise UsageError(f"the profile has no {_MEMBERS[group]}", hint=f"Try {others}.")


def _imports_whole(profile: Profile, frames: Frames) -> Profile:
    """The tree in which a line that imports a library holds all that the library does then."""
    if frames == "all":
        return profile
    return leave_out(profile, below_imports(profile) & of_libraries(profile, profile))[0]


def _own_visits(profile: Profile) -> Profile:
    """Return a bottom-up tree with the visits of its nodes alone, not those of what they took in.

    So whatever folds from here on, a node's total is how often it was entered.
    """
    if "count" not in profile.metrics:
        return profile
    tables = replace(profile.tables, absorbed_sketches={})
    own = profile.own["count"]
    absorbed = {**profile.absorbed, "count": np.zeros_like(own)}
    whole = {**profile.whole, "count": own.sum().item()}
    return replace(profile, absorbed=absorbed, whole=whole, tables=tables)


def _ranking(profile: Profile, options: ViewOptions) -> str:
    """Return the first shown metric that adds up; rates and extremes cannot say what is small."""
    sums = [name for name, metric in profile.metrics.items() if metric.adds == "sum"]
    if not sums:
        return ""
    shown = (name for name in shown_metrics(profile, options) if name in sums)
    return next(shown, default_metric(profile))


def _fold(reason: str, before: Profile, after: Profile, metric: str) -> Fold:
    amount = after.absorbed[metric].sum() - before.absorbed[metric].sum() if metric else 0
    return Fold(reason, _real_nodes(before) - _real_nodes(after), float(amount))


def _real_nodes(profile: Profile) -> int:
    """Return the number of nodes, without the one that stands for what was cut off at the top."""
    return len(profile) - (HIDDEN in profile.symbols)


def _check(threshold: float) -> None:
    if not 0 <= threshold <= 100:
        raise UsageError(
            f"the threshold {threshold:g} is not a percentage",
            hint="Give one from 0 to 100, as -t 1.",
        )
