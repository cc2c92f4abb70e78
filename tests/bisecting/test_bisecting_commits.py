"""Commits at which kernels change: found with few tries, also between commits that fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tileprof.bisecting.commits import Walk


@given(
    st.sets(st.integers(1, 199), max_size=4),
    st.sets(st.integers(1, 198), max_size=20),
)
def test_each_change_is_found_between_neighbours_that_compile(
    changes: set[int], broken: set[int]
) -> None:
    """A change is named with the commits in front of it that could not be tried."""
    commits = [str(at) for at in range(200)]

    def code_of(commit: str) -> dict[str, str] | None:
        at = int(commit)
        return None if at in broken else {"k": str(sum(c <= at for c in changes))}

    walk = Walk(commits, code_of)
    steps = walk.steps(["k"])
    for step in steps:
        low, high = int(step.before), int(step.commit)
        assert any(low < change <= high for change in changes)
        assert [int(each) for each in step.between] == list(range(low + 1, high))
        assert all(at in broken for at in range(low + 1, high))
    for change in changes:
        assert sum(int(s.before) < change <= int(s.commit) for s in steps) == 1
    assert walk.tried <= 2 + len(broken) + 9 * max(len(changes), 1)


def test_only_kernels_that_change_are_named() -> None:
    """Two kernels change at commits of their own."""
    codes = {"a": {"x": "1", "y": "1"}, "b": {"x": "2", "y": "1"}, "c": {"x": "2", "y": "2"}}
    steps = Walk(["a", "b", "c"], codes.get).steps(["x", "y"])
    assert [(each.commit, each.kernels) for each in steps] == [("b", ("x",)), ("c", ("y",))]
