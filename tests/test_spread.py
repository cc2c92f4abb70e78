"""Cases of families that only a sweep runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.spread import beyond_spread


def family(mark: pytest.MarkDecorator, *cases: dict[str, Any]) -> list[Any]:
    """Collected cases of one function, with the ids that pytest gives."""
    return [Case(mark.mark, "-".join(map(str, each.values())), each) for each in cases]


class Case:
    """The part of a collected test that a spread reads."""

    def __init__(self, mark: pytest.Mark, name: str, params: dict[str, Any]) -> None:
        self.mark, self.nodeid = mark, f"a.py::test[{name}]"
        self.callspec = SimpleNamespace(id=name, params=params)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Return the mark of the function."""
        return self.mark if name == self.mark.name else None


def left_out(cases: list[Any]) -> list[str]:
    """Ids of the cases that only a sweep runs."""
    return [case.callspec.id for case in beyond_spread(cases)]  # type: ignore[attr-defined]


NAMES = [{"name": name} for name in ("one", "two", "three")]


def test_named_cases_run_always() -> None:
    """Those that are named, or all that are not named in `without`."""
    assert left_out(family(pytest.mark.spread("two"), *NAMES)) == ["one", "three"]
    assert left_out(family(pytest.mark.spread(without=["two"]), *NAMES)) == ["two"]
    assert not left_out(family(pytest.mark.sweep, *NAMES))


@pytest.mark.parametrize("mark", [pytest.mark.spread("four"), pytest.mark.spread(without=["four"])])
def test_name_that_no_case_has_is_an_error(mark: pytest.MarkDecorator) -> None:
    """Otherwise a renamed case would leave every run unseen."""
    with pytest.raises(pytest.UsageError, match="four"):
        beyond_spread(family(mark, *NAMES))


def test_each_value_is_met() -> None:
    """Twelve pairs of three names and four numbers leave four, in which each of them is."""
    pairs = [{"name": name, "number": number} for name in "abc" for number in range(4)]
    out = left_out(family(pytest.mark.spread, *pairs))
    kept = [each for each in pairs if f"{each['name']}-{each['number']}" not in out]
    assert len(kept) == 4
    assert {each["name"] for each in kept} == {*"abc"}
    assert {each["number"] for each in kept} == {*range(4)}
