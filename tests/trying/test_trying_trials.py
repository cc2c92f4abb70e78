"""Which changes are tried, how many pairs each gets, and which processes start together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.fixes import (
    COMPILED_MODELS,
    CONVOLUTION_TRIALS,
    CompiledFunction,
    Fix,
    LoaderWorkers,
    MatmulPrecision,
    OptimizerForm,
)
from tileprof.bench.doubts import known_before
from tileprof.bench.intervals import Interval
from tileprof.trying import trials
from tileprof.trying.choosing import worth_keeping
from tileprof.trying.comparing import Check, Comparison
from tileprof.trying.measuring import Outcome, Pair
from tileprof.trying.orders import Orders, TriedProgram
from tileprof.trying.outcomes import Candidate, Settings
from tileprof.trying.processes import ProgramError, Run
from tileprof.trying.trials import Trials

SAME = Comparison((Check("loss", 1, 0.0, 1.0),))
OTHER = Comparison((Check("loss", 1, 2.0, 1.0),))


class Played(Trials):
    """Trials whose pairs have given speed-ups, by change; `made` has the changes that were started
    beside the same original, and `failing` those whose processes fail there, with the error."""

    def __init__(self, speedups: Mapping[Fix, Sequence[float]], **settings: Any) -> None:
        super().__init__(TriedProgram("script", "a.py"), Settings(**settings))
        self._speedups = speedups
        self.made: list[list[Fix]] = []
        self.failing: dict[Fix, str] = {}
        self._together, self.doubts = 4, ()

    def begin(self) -> None:
        pass

    def accuracy(self, fixes: Sequence[Fix]) -> Any:
        return "rounding"

    def compared(self, *runs: Any) -> Comparison:
        return SAME

    def rounds(self, changes: Sequence[tuple[Fix, ...]], numbers: range) -> Any:
        for number in numbers:
            self.made.append([fix for (fix, *_) in changes])
            yield [self._outcome(fix, number, len(changes)) for (fix, *_) in changes]

    def _outcome(self, fix: Fix, number: int, together: int) -> Outcome | ProgramError:
        if together > 1 and fix in self.failing:
            return ProgramError(self.failing[fix])
        given, run = self._speedups[fix], Run(Path(), 1, 1, (1,), 0)
        return Outcome(Pair(((given[number % len(given)], 1.0),)), run, run)


def candidate(fix: Fix, predicted: float) -> Candidate:
    """One change with the gain that its finding states."""
    return Candidate((fix,), "id", Gain(1.0, predicted, 9.0))


FUSED, LISTS = OptimizerForm("fused"), OptimizerForm("foreach")
TF32, TRIALS, WORKERS = MatmulPrecision(), CONVOLUTION_TRIALS, LoaderWorkers()


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
    with Played({FUSED: speedups}) as played:
        trial = played.try_one(candidate(FUSED, 1.5))
    assert (trial.verdict, len(played.made)) == (verdict, pairs)


def test_one_pair_decides_less_on_a_busy_machine() -> None:
    """What is slower there may be so because of other programs."""
    with Played({FUSED: [0.8, 1.3, 1.3]}) as played:
        played.doubts = known_before(None, 99.0, 2)
        assert played.try_one(candidate(FUSED, 1.5)).verdict == "undecided"


def test_changes_share_the_original_until_they_are_decided() -> None:
    """What is slower in its first pair does not start again; what does the same waits."""
    with Played({FUSED: [1.5], LISTS: [1.2], TF32: [0.9], WORKERS: [1.3]}) as played:
        asked = [candidate(each, 9.0) for each in (FUSED, LISTS, TF32, WORKERS)]
        found = {each.candidate.fixes: each.verdict for each in played.tried(asked)}
    first, second, third = [[FUSED, TF32]] + [[FUSED]] * 2, [[LISTS]] * 3, [[WORKERS]] * 3
    assert played.made[:9] == first + second + third
    assert found[TF32,] == "not-faster"
    assert found[FUSED, WORKERS] == found[FUSED,] == found[LISTS,] == "kept"


@pytest.mark.parametrize(
    ("fix", "alike", "verdict"),
    [
        (COMPILED_MODELS, SAME, "kept"),
        (COMPILED_MODELS, OTHER, "different"),
        (TF32, SAME, "different"),
    ],
)
def test_compiled_code_is_compared_with_the_random_numbers_of_the_original(
    fix: Fix, alike: Comparison, verdict: str
) -> None:
    """Once, where its results differ as it is; other changes draw no other numbers."""
    run = Run(Path("alike"), 1, 1, (1,), 0)
    with Played({fix: [1.5]}) as played:
        asked: list[tuple[Fix, ...]] = []
        played.drawn_alike = lambda fixes: asked.append(fixes) or run  # type: ignore
        played.compared = lambda old, new, *_: alike if new is run else OTHER  # type: ignore
        assert played.try_one(candidate(fix, 1.5)).verdict == verdict
    assert len(asked) == (fix == COMPILED_MODELS)


@pytest.mark.parametrize(("speedup", "best"), [(1.1, [FUSED]), (1.9, [FUSED, TF32])])
def test_changes_that_are_slower_together_are_not_kept_together(
    speedup: float, best: list[Fix]
) -> None:
    """The one that brings most by itself is worth more then."""
    with Played({FUSED: [1.5], TF32: [1.2]}) as played:
        done = [*played.tried([candidate(FUSED, 9.0), candidate(TF32, 9.0)])]
    assert done[-1].candidate.fixes == (FUSED, TF32)
    done[-1] = replace(done[-1], measured=Interval(speedup, 1.05, 2.0))
    found = worth_keeping(done)
    assert found is not None
    assert [*found.candidate.fixes] == best


def test_change_without_memory_beside_others_is_tried_alone() -> None:
    """Another error ends it."""
    with Played({FUSED: [1.5], TF32: [1.2], TRIALS: [1.0]}) as played:
        played.failing = {TF32: "CUDA out of memory", TRIALS: "ValueError: 3"}
        asked = [candidate(each, 9.0) for each in (FUSED, TF32, TRIALS)]
        found = {each.candidate.fixes: each.verdict for each in played.tried(asked)}
    assert (found[TF32,], found[TRIALS,]) == ("kept", "failed")
    assert played.made[3:6] == [[TF32]] * 3


@pytest.mark.parametrize(
    ("speedup", "tried"), [(1.3, 1), (0.9, 1), (1.5, 1)], ids=["kept", "slower", "beaten"]
)
def test_part_of_a_model_is_not_compiled_where_the_model_was(speedup: float, tried: int) -> None:
    """Whatever that brought; where the whole failed, the part is tried."""
    part = CompiledFunction("a.py", "Block.forward")
    asked = [candidate(COMPILED_MODELS, 1.4), candidate(part, 1.4)]
    with Played({COMPILED_MODELS: [speedup], part: [1.2]}) as played:
        assert len(list(played.tried(asked))) == tried


@pytest.mark.parametrize(("predicted", "tried"), [(1.2, 1), (1.9, 2)])
def test_change_that_excludes_a_kept_one_has_to_promise_more(predicted: float, tried: int) -> None:
    """An optimizer has one form: lists are tried only where more is expected of them."""
    with Played({FUSED: [1.5], LISTS: [0.9]}) as played:
        found = list(played.tried([candidate(FUSED, 1.9), candidate(LISTS, predicted)]))
    assert len(found) == tried


def test_no_change_begins_after_the_budget() -> None:
    """It is asked before each change, the first one too."""
    with Played({}, budget=-1.0) as played:
        assert not list(played.tried([candidate(FUSED, 1.9), candidate(MatmulPrecision(), 1.5)]))


class Started:
    """A process that is ready at once; what happens is noted in `events`."""

    events: ClassVar[list[str]] = []
    failing: ClassVar[str] = "none"

    def __init__(self, orders: Orders, limit_s: float) -> None:
        self._name = f"{Path(orders.folder).name}{' disturbed' if orders.disturbed else ''}"

    def __enter__(self) -> Started:
        self.events.append(f"start {self._name}")
        return self

    def __exit__(self, *ending: object) -> None:
        pass

    def ready(self) -> bool:
        if self._name.endswith(self.failing):
            raise ProgramError("failed")
        return True


def test_pairs_start_together_where_memory_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All six processes start before the first pair is timed; a further pair starts after them."""
    monkeypatch.setattr(trials, "Process", Started)
    monkeypatch.setattr(Started, "events", events := [])
    timed = iter("abcdef")

    def measured(*given: Any) -> list[Any]:
        events.append(next(timed))
        return [None]

    monkeypatch.setattr(trials, "steps_in_turns", measured)
    with Trials(TriedProgram("script", "a.py")) as held:
        held.has_steps, held._together = True, 6
        list(held.rounds([(FUSED,)], range(4)))
    names = [each.partition("-")[0] if "start" in each else each for each in events]
    first = [f"start {number}" for number in (1, 1, 2, 2, 3, 3)]
    assert names == [*first, "a", "b", "c", "start 4", "start 4", "d"]


def test_process_that_fails_before_it_is_ready_fails_its_change_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The change beside it is timed; where the original fails, all do."""
    monkeypatch.setattr(trials, "Process", Started)
    monkeypatch.setattr(trials, "steps_in_turns", lambda first, rest, *_: ["timed" for _ in rest])
    changes: list[tuple[Fix, ...]] = [(FUSED,), (TF32,)]
    found: dict[str, list[Any]] = {}
    for failing in ("changed-0", "original"):
        monkeypatch.setattr(Started, "failing", failing)
        with Trials(TriedProgram("script", "a.py")) as held:
            held.has_steps, held._together = True, 4
            (found[failing],) = held.rounds(changes, range(1))
    assert isinstance(found["changed-0"][0], ProgramError)
    assert found["changed-0"][1] == "timed"
    assert all(isinstance(each, ProgramError) for each in found["original"])


class Whole(Started):
    """A process of a program that has no step and no loop."""

    step_ns = 0.0

    def ready(self) -> bool:
        return False

    def end(self) -> Run:
        return Run(Path(self._name), 0, 1, (), 0)

    ended = end


@pytest.mark.parametrize(("recorded", "starts"), [(True, 4), (False, 3)])
def test_recording_is_the_first_run(
    recorded: bool, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it a program without any step runs to find a loop, then twice as a whole; without a
    recording, it is known only then that there is no step."""
    monkeypatch.setattr(trials, "Process", Whole)
    monkeypatch.setattr(trials, "Reference", lambda run: SimpleNamespace(add=lambda run: SAME))
    events: list[str] = []
    monkeypatch.setattr(Started, "events", events)
    with Trials(TriedProgram("script", "a.py")) as held:
        if recorded:
            held.record(Path("a.tprof"))
        held.begin()
    assert not held.has_steps
    assert len(events) == starts
