"""Which changes are tried, how many pairs each gets, and which processes start together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.fixes import Fix, MatmulPrecision, OptimizerForm
from tileprof.trying import trials
from tileprof.trying.comparing import Check, Comparison
from tileprof.trying.measuring import Pair
from tileprof.trying.orders import Orders, TriedProgram
from tileprof.trying.processes import Run
from tileprof.trying.trials import Candidate, Settings, Trials

SAME = Comparison((Check("loss", 1, 0.0, 1.0),))


class Played(Trials):
    """Trials whose pairs have given speed-ups; `made` has the changes of each pair."""

    def __init__(self, speedups: Sequence[Sequence[float]], **settings: Any) -> None:
        super().__init__(TriedProgram("script", "a.py"), Settings(**settings))
        self._speedups = list(speedups)
        self.made: list[tuple[Fix, ...]] = []

    def begin(self) -> None:
        pass

    def accuracy(self, fixes: Sequence[Fix]) -> Any:
        return "rounding"

    def compared(self, *runs: Any) -> Comparison:
        return SAME

    def pairs(self, fixes: tuple[Fix, ...], numbers: range) -> Any:
        given = self._speedups[len(set(self.made) - {fixes})]
        for number in numbers:
            self.made.append(fixes)
            run = Run(Path(), 1, 1, (1,), 0)
            yield Pair(((given[number % len(given)], 1.0),)), run, run


def candidate(fix: Fix, predicted: float) -> Candidate:
    """One change with the gain that its finding states."""
    return Candidate((fix,), "id", Gain(1.0, predicted, 9.0))


FUSED, LISTS = OptimizerForm("fused"), OptimizerForm("foreach")


@pytest.mark.parametrize(
    ("speedups", "verdict", "pairs"),
    [
        ([1.3, 1.31, 1.32], "kept", 3),
        ([0.9], "not-faster", 1),
        ([0.97, 0.98, 0.96], "not-faster", 3),
        ([0.97, 1.1, 0.9], "undecided", 3),
        ([1.3, 1.0, 1.2], "undecided", 8),
    ],
)
def test_pairs_until_a_change_is_decided(speedups: list[float], verdict: str, pairs: int) -> None:
    """One is enough for what is clearly slower; more follow only where there may be a gain."""
    with Played([speedups]) as played:
        trial = played.try_one(candidate(FUSED, 1.5))
    assert (trial.verdict, len(played.made)) == (verdict, pairs)


@pytest.mark.parametrize(("predicted", "tried"), [(1.2, 1), (1.9, 2)])
def test_change_that_excludes_a_kept_one_has_to_promise_more(predicted: float, tried: int) -> None:
    """An optimizer has one form: lists are tried only where more is expected of them."""
    with Played([[1.5], [0.9]]) as played:
        found = list(played.tried([candidate(FUSED, 1.9), candidate(LISTS, predicted)]))
    assert len(found) == tried


def test_no_change_begins_after_the_budget() -> None:
    """It is asked before each change, the first one too."""
    with Played([[1.5], [1.5]], budget=-1.0) as played:
        assert not list(played.tried([candidate(FUSED, 1.9), candidate(MatmulPrecision(), 1.5)]))


class Started:
    """A process that is ready at once; what happens is noted in `events`."""

    events: ClassVar[list[str]] = []

    def __init__(self, orders: Orders, limit_s: float) -> None:
        self._name = f"{Path(orders.folder).name}{' disturbed' if orders.disturbed else ''}"

    def __enter__(self) -> Started:
        self.events.append(f"start {self._name}")
        return self

    def __exit__(self, *ending: object) -> None:
        pass

    def ready(self) -> bool:
        return True


def test_pairs_start_together_where_the_device_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All six processes start before the first pair is timed; a further pair starts after them."""
    monkeypatch.setattr(trials, "Process", Started)
    monkeypatch.setattr(Started, "events", events := [])
    timed = iter("abcdef")
    monkeypatch.setattr(trials, "pair_of_steps", lambda *_, **__: events.append(next(timed)))
    with Trials(TriedProgram("script", "a.py")) as held:
        held.has_steps, held._at_once = True, 3
        list(held.pairs((FUSED,), range(4)))
    names = [each.partition("-")[0] if "start" in each else each for each in events]
    first = [f"start {number}" for number in (1, 1, 2, 2, 3, 3)]
    assert names == [*first, "a", "b", "c", "start 4", "start 4", "d"]
