"""What of a tree is in sight: folding, moving, the threshold, searches, places of findings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies_profile import profiles, sums
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.tui.state import Choices, TreeState
from tileprof.viewer import ViewOptions
from tileprof.viewer.rows import TreeRows
from tileprof.viewer.text import UNICODE
from tileprof.viewer.tree import rows_of


def rows(profile: Profile, **options: object) -> TreeRows:
    """The lines of a profile's tree."""
    return rows_of(profile, ViewOptions(**options), UNICODE)  # type: ignore[arg-type]


def state(profile: Profile, threshold: float = 0, **options: object) -> TreeState:
    """What is in sight of them."""
    return TreeState(rows(profile, **options), Choices(threshold=threshold))


def names(shown: TreeState) -> list[str]:
    """Names of the lines in sight, from top to bottom."""
    return [shown.rows.profile.names[node] for node in shown.rows.nodes[shown.visible].tolist()]


def by_hand(shown: TreeState, line: int) -> list[int]:
    """The lines in sight from one on, found by going through its children."""
    tree = shown.rows
    children = np.flatnonzero(tree.outline.parents == line).tolist()
    order = sorted(children, key=lambda each: (-tree.amounts[each], each))
    found = []
    for child in order:
        if reaches(shown, child):
            below = by_hand(shown, child) if shown.is_open(child) else []
            found += [child, *below]
    return found


def reaches(shown: TreeState, line: int) -> bool:
    """Whether a line, or one below it, has the least share."""
    tree = shown.rows
    below = np.flatnonzero(tree.outline.parents == line).tolist()
    least = shown.choices.threshold / 100 * abs(tree.whole)
    own = not tree.whole or abs(tree.amounts[line]) >= least
    return own or any(reaches(shown, each) for each in below)


@given(profiles(max_nodes=30), st.data())
def test_folding_leaves_in_sight_what_going_through_the_tree_finds(
    profile: Profile, data: st.DataObject
) -> None:
    """For any folds and threshold; the chosen line stays in sight."""
    assume(sums(profile))
    shown = state(profile, data.draw(st.sampled_from([0, 0.5, 5, 60])), frames="all")
    for _ in range(data.draw(st.integers(0, 8))):
        line = data.draw(st.integers(0, len(shown.rows) - 1))
        act = data.draw(st.sampled_from(["open", "all", "choose", "reveal"]))
        if act == "choose":
            shown.choose(data.draw(st.integers(-2, len(shown) + 2)))
        elif act == "reveal":
            shown.reveal(line)
            assert shown.cursor == line
        else:
            act_on = shown.set_open if act == "open" else shown.set_all_open
            act_on(line, data.draw(st.booleans()))
        assert shown.visible.tolist() == by_hand(shown, -1)
        assert not len(shown) or shown.cursor == shown.visible[shown.index]


def test_a_long_tree_begins_with_a_screen_or_two() -> None:
    """Lines below which nothing costs much begin folded."""
    small = [node("frame", f"s{k}", time=1.0) for k in range(100)]
    large = with_children(node("frame", "large"), node("kernel", "k", time=9000.0))
    shown = state(profile_of(with_children(node("frame", "many"), *small), large), frames="all")
    assert names(shown) == ["large", "k", "many"]
    shown.choose(2)
    shown.set_open(shown.cursor, True)
    assert len(shown) == 103
    shown.set_threshold(0.5)
    assert (names(shown), shown.out_of_sight) == (["large", "k", "many"], 100)


def test_sorting_by_a_rate_leaves_small_lines_folded() -> None:
    """Rates have no shares: what is small is decided by the metric that adds up."""
    slow = node("kernel", "slow", time=9000.0, count=1)
    many = [node("kernel", f"k{k}", time=1.0, count=1 + k) for k in range(100)]
    profile = profile_of(slow, with_children(node("frame", "many"), *many))
    shown = state(profile, 0.5, frames="all", metrics=("avg_time",))
    assert names(shown) == ["slow", "many"]
    shown.set_threshold(0)
    shown.set_all_open(shown.rows.nodes.tolist().index(1), True)
    assert names(shown)[:4] == ["slow", "many", "k0", "k1"]


def test_a_search_finds_names_and_places() -> None:
    """Small letters stand for both cases; a match that is folded or small comes into sight."""
    shown = state(
        profile_of(
            with_children(
                node("scope", "Forward"),
                node("kernel", "matmul", "/w/a.py:7", time=1000.0),
                with_children(node("scope", "rest"), node("kernel", "Tiny", time=1.0)),
            )
        ),
        threshold=5,
    )
    assert names(shown) == ["Forward", "matmul"]
    assert [shown.search(each) for each in ("tiny", "Tiny", "TINY", r"^f\w+", "a.py:7")] == [
        1, 1, 0, 1, 1,
    ]  # fmt: skip
    shown.search("t")
    first = shown.next_match(1, shown.cursor)
    assert first is not None
    assert not shown.reveal(first)
    last = shown.next_match(-1, shown.cursor)
    assert last is not None
    assert shown.reveal(last)
    assert names(shown)[shown.index] == "Tiny"
    assert shown.choices.threshold == 0
    with pytest.raises(UsageError, match="not a regular expression"):
        shown.search("(")


def test_a_later_tree_looks_as_the_reader_left_the_earlier_one() -> None:
    """Folds and the chosen line belong to paths: of a program that goes on, or sorted otherwise."""
    choices = Choices(threshold=0)
    earlier = TreeState(rows(matmul()), choices)
    folded = names(earlier).index("forward")
    earlier.choose(folded)
    earlier.set_open(earlier.cursor, False)
    after = names(earlier)
    later = TreeState(rows(matmul(), metrics=("cpu_time",)), choices)
    assert set(names(later)) == set(after)
    assert names(later)[later.index] == names(earlier)[folded]


def test_places_of_findings_are_found_by_their_path() -> None:
    """The path says which of several launches is meant; without one, the longest is."""
    shown = state(
        profile_of(
            with_children(node("scope", "a"), node("kernel", "k", time=5.0)),
            with_children(node("scope", "b"), node("kernel", "k", time=9.0)),
        )
    )

    def parent(line: int | None) -> str:
        assert line is not None
        return shown.rows.profile.names[int(shown.rows.nodes[shown.rows.outline.parents[line]])]

    assert parent(shown.line_of_path(("main", "a", "k"), "k")) == "a"
    assert parent(shown.line_of_path(("nowhere",), "k")) == "b"
    assert shown.line_of_path(("nowhere",), "") is None
    assert shown.kernels(0) == ["k"]
