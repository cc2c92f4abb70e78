"""Whatever an operation does to the tree, the numbers of the program stay what they were."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies_profile import operations, profiles, sums
from tileprof.profile import Profile, bottom_up, diff, flat, limit_depth, merge, prune


def same(a: float, b: float) -> bool:
    """Compare up to rounding; NaN equals NaN."""
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-3) or (math.isnan(a) and math.isnan(b))


@given(data=st.data(), profile=profiles())
def test_grand_totals_survive_every_operation(data: st.DataObject, profile: Profile) -> None:
    """Two operations in a row leave each metric's whole as it was, and `check` agrees."""
    profile.check()
    once = data.draw(operations(profile))
    once.check()
    twice = data.draw(operations(once))
    twice.check()
    assert dict(twice.whole) == pytest.approx(dict(profile.whole), nan_ok=True)


@given(profile=profiles())
def test_node_law(profile: Profile) -> None:
    """Own + absorbed + the children's totals make the total of every node, also after a cut."""
    for tree in (profile, limit_depth(profile, 2)):
        for name in sums(tree):
            for i in range(len(tree)):
                parts = [tree.own[name][i], tree.absorbed[name][i]]
                parts += [tree.total(name)[child] for child in tree.children(i)]
                assert same(sum(parts), tree.total(name)[i])


@given(parts=st.lists(profiles(), max_size=3))
def test_merge_adds_up(parts: list[Profile]) -> None:
    """A merge holds the sum, the minimum, the maximum of what its inputs hold."""
    whole = merge(parts)
    whole.check()
    for name, metric in whole.metrics.items():
        inputs = [part.whole[name] for part in parts if name in part.metrics]
        match metric.adds:
            case "sum":
                assert same(whole.whole[name], sum(inputs))
            case "min":
                assert same(whole.whole[name], min(v for v in inputs if not math.isnan(v)))
            case "max":
                assert same(whole.whole[name], max(v for v in inputs if not math.isnan(v)))
            case "last":
                assert math.isnan(whole.whole[name])


@given(profile=profiles())
def test_merge_of_one_is_itself_up_to_order(profile: Profile) -> None:
    """A profile merged with nothing has the same paths with the same totals."""
    assert by_path(merge([profile])) == by_path(profile)


@given(profile=profiles())
def test_merge_with_itself_doubles_sums_only(profile: Profile) -> None:
    """Sums double at every path; minima, maxima and last values stay."""
    double, once = by_path(merge([profile, profile])), by_path(profile)
    assert double.keys() == once.keys()
    for path, values in once.items():
        for name, value in values.items():
            factor = 2 if profile.metrics[name].adds == "sum" else 1
            assert same(double[path][name], value * factor)


def by_path(profile: Profile) -> dict[tuple[object, ...], dict[str, float]]:
    """Return the own values of every node under its path."""
    found = {}
    for i in range(len(profile)):
        path = tuple(profile.symbols[profile.symbol[n]].key() for n in profile.path(i))
        found[path] = {
            name: cast(float, profile.own[name][i].item())
            for name in profile.metrics
            if not np.isnan(profile.own[name][i])
        }
    return found


@given(old=profiles(), new=profiles())
def test_diff_conserves_both_sides(old: Profile, new: Profile) -> None:
    """Each side of a diff is its profile on a wider tree; statuses say where a node exists."""
    laid = diff(old, new)
    for side, profile, gone in ((laid.old, old, "new"), (laid.new, new, "old")):
        side.check()
        for name in profile.metrics:
            assert same(side.whole[name], profile.whole[name])
        assert sum(status != gone for status in laid.status) == len(profile)


@given(profile=profiles(), data=st.data())
def test_bottom_up_roots_hold_own_values(profile: Profile, data: st.DataObject) -> None:
    """A root's total in the bottom-up tree is what flat shows of the same symbol."""
    if not sums(profile):
        return
    metric = data.draw(st.sampled_from(sums(profile)))
    turned, level = bottom_up(profile, metric), flat(profile)
    tops = {turned.symbols[turned.symbol[i]].key(): turned.total(metric)[i] for i in turned.roots()}
    one = {level.symbols[level.symbol[i]].key(): level.total(metric)[i] for i in level.roots()}
    assert tops.keys() == one.keys()
    assert all(same(tops[key], one[key]) for key in one)


@given(profile=profiles())
def test_prune_is_idempotent_and_shows_all_at_share_zero(profile: Profile) -> None:
    """Share 0 keeps every node; pruning twice is pruning once."""
    for metric in sums(profile):
        assert prune(profile, metric, 0) == profile
        once = prune(profile, metric, 0.3)
        assert prune(once, metric, 0.3) == once
