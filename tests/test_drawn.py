"""Cases that a run with a seed draws from functions marked `drawn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import _not_drawn


@dataclass(frozen=True)
class Case:
    """The part of a collected test that a draw reads."""

    nodeid: str
    count: int = 0

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Return the mark `drawn` of a function that has one."""
        assert name == "drawn"
        return pytest.mark.drawn(self.count).mark if self.count else None


MANY = [Case(f"a.py::many[{n}]", 3) for n in range(20)]
FEW = [Case(f"a.py::few[{n}]", 3) for n in range(2)]
WHOLE: list[Any] = [*MANY, *FEW, *(Case(f"a.py::whole[{n}]") for n in range(9))]


def test_only_cases_beyond_the_count_are_left_out() -> None:
    """A function without the mark, or with fewer cases, keeps all."""
    left_out = _not_drawn(WHOLE, "1")
    assert len(left_out) == len(MANY) - 3
    assert left_out <= {*MANY}


def test_workers_draw_alike_and_runs_draw_anew() -> None:
    """The seed alone decides; several runs reach every case."""
    assert _not_drawn(WHOLE, "1") == _not_drawn(WHOLE, "1")
    always = {*MANY}.intersection(*(_not_drawn(WHOLE, str(seed)) for seed in range(60)))
    assert not always
