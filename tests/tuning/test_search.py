"""The search, with kernels that are compiled and times that are made up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tileprof import ir
from tileprof.bench import Batch
from tileprof.errors import ExecutionError, UsageError
from tileprof.tuning.configurations import Configuration
from tileprof.tuning.facts import KernelFacts, LaunchFacts, Part
from tileprof.tuning.machine import Machine, processor
from tileprof.tuning.outcomes import Outcome
from tileprof.tuning.search import Settings, tuned
from tileprof.tuning.space import Space, Tunable
from tileprof.tuning.trials import Order, Refused, Trial

KERNEL = ir.parse("kernel @empty() {\n}\n")
SPACE = Space(
    (
        Tunable("block", "tile", 16, (16, 32, 64, 128, 256, 512)),
        Tunable("chunk", "tile", 16, (16, 32, 64, 128, 256, 512)),
        Tunable("stages", "stages", 1, (1, 2, 3, 4)),
    )
)
TOO_LARGE = Refused("too much", "less", "shared memory")


def cost(configuration: Configuration) -> float:
    """A smooth time in ns with its least, 100 µs, at 128, 64 and 3."""
    held: dict[str, Any] = configuration.named
    away = math.log2(held["block"] / 128) ** 2 + math.log2(held["chunk"] / 64) ** 2
    return 1e5 * float(1 + 0.15 * away + 0.2 * abs(held["stages"] - 3))


@dataclass
class FakeReady:
    """A configuration that takes a time and has a fault."""

    ns: float
    wrong: str = ""
    error: str = ""

    def run(self) -> float:
        """Give the time that a batch shall take."""
        if self.error:
            raise ExecutionError(self.error)
        return self.ns

    def fault(self) -> str:
        """Give the difference of results."""
        return self.wrong


@dataclass
class FakeSubject:
    """A kernel whose times are those of `cost`; the model sees them with errors."""

    model_error: float = 0.2
    space: Space = SPACE
    device: str = "cpu"
    ready_of: Callable[[Configuration], FakeReady] = lambda c: FakeReady(cost(c))
    refuses: Callable[[Configuration], bool] = lambda c: False
    name: str = "fake"
    seed: int = 0
    takes_binaries: bool = False
    timed: list[Configuration] = field(default_factory=list)
    wanted: list[Configuration] = field(default_factory=list)
    lowered: int = 0

    @property
    def machine(self) -> Machine:
        """A processor of one thread."""
        return processor(1)

    def traced(self, configuration: Configuration) -> ir.Kernel:
        """Give an empty kernel, and note for which configuration."""
        self.wanted.append(configuration)
        return KERNEL

    def ready(self, configuration: Configuration, binary: object = None) -> FakeReady:
        """Give the made-up configuration."""
        self.timed.append(configuration)
        return self.ready_of(configuration)

    def timer(self) -> Any:
        """Give a timer that believes what a call gives."""
        return FakeTimer()

    def trials(self, orders: Sequence[Order], what: str = "") -> list[Trial]:
        """Give facts whose time on the processor is the cost, with the model's error."""
        chosen, self.wanted = self.wanted[: len(orders)], self.wanted[len(orders) :]
        self.lowered += len(orders)
        return [self._trial(each) for each in chosen]

    def _trial(self, configuration: Configuration) -> Trial:
        if self.refuses(configuration):
            return Trial(None, TOO_LARGE, 0.0, False)
        seed = [self.seed, crc32(str(sorted(configuration.named.items())).encode())]
        wrong = math.exp(self.model_error * np.random.default_rng(seed).standard_normal())
        part = Part(stores=cost(configuration) * wrong * 80)  # at 80 GB/s, for the cache of a core
        launch = LaunchFacts(
            1, 1, 1, 0, 32, 0, 0, False, 1, 1, False, False, 0, ((0, 0.0),), 0.0, (part,)
        )
        return Trial(KernelFacts((launch,)), None, 0.0, False)


class FakeTimer:
    """A timer with 0.2 % of noise."""

    clock = "host"
    most_calls = 1000

    def __init__(self) -> None:
        self._draw = np.random.default_rng(0)

    def batch(self, run: Callable[[], float], calls: int) -> Batch:
        """Time calls."""
        return Batch(run() * float(np.exp(0.002 * self._draw.standard_normal())), 0.0)


def searched(subject: FakeSubject, settings: Settings | None = None) -> Outcome:
    """Search with trials that the subject makes up."""
    return tuned(subject, settings, workers=subject)


def test_the_best_is_found_with_few_timed() -> None:
    """Models that err by 15 % at random lead to the best in three of four searches, else to the
    next best, which takes 15 % more in this space; at most ten are timed."""
    shares = []
    for seed in range(8):
        outcome = searched(FakeSubject(0.15, seed=seed))
        assert len(outcome.timed) <= 10
        assert outcome.winner.verdict == "winner"
        assert outcome.winner.measured is not None
        found = cost(outcome.winner.configuration)
        assert outcome.winner.measured.ns == pytest.approx(found, rel=0.02)
        shares.append(1e5 / found)
    assert sum(share == 1 for share in shares) >= 6
    assert min(shares) >= 0.85


def test_a_right_model_needs_few_times() -> None:
    """Nothing more is timed when nothing is left to gain."""
    outcome = searched(FakeSubject(model_error=0.0))
    assert cost(outcome.winner.configuration) <= 1.005e5
    assert outcome.rank_correlation > 0.9
    positions = [each.measured.position for each in outcome.timed if each.measured]
    assert sorted(positions) == list(range(1, len(positions) + 1))


def test_only_a_part_of_the_space_is_lowered() -> None:
    """The search goes along the model, and keeps to its limit."""
    subject = FakeSubject()
    searched(subject, Settings(trials=60))
    assert subject.lowered <= 60 < SPACE.size


def test_wrong_results_never_win() -> None:
    """The fastest gives something else, and says what."""

    def ready(configuration: Configuration) -> FakeReady:
        is_wrong = configuration.named["block"] != 16
        return FakeReady(cost(configuration) / (10 if is_wrong else 1), "it differs" * is_wrong)

    outcome = searched(FakeSubject(ready_of=ready))
    assert outcome.winner.configuration.named["block"] == 16
    wrong = [each for each in outcome.looked if each.verdict == "wrong"]
    assert wrong
    assert all(each.reason == "it differs" and each.measured is None for each in wrong)


def test_a_configuration_that_fails_when_it_runs_is_left_out() -> None:
    """Its error is kept as the reason, and the search goes on."""

    def ready(configuration: Configuration) -> FakeReady:
        return FakeReady(
            cost(configuration), error="no luck" * (configuration.named["stages"] == 3)
        )

    outcome = searched(FakeSubject(ready_of=ready))
    assert outcome.winner.configuration.named["stages"] != 3
    assert {e.reason for e in outcome.looked if e.verdict == "failed"} == {"no luck"}


def test_refused_configurations_rule_out_larger_ones() -> None:
    """What would have to fail is not tried."""
    tried: list[Configuration] = []

    def refuses(configuration: Configuration) -> bool:
        tried.append(configuration)
        held: dict[str, Any] = configuration.named
        return bool(held["block"] * held["chunk"] * held["stages"] > 8192)

    outcome = searched(FakeSubject(refuses=refuses))
    held: dict[str, Any] = outcome.winner.configuration.named
    assert held["block"] * held["chunk"] * held["stages"] <= 8192
    out = [each for each in outcome.looked if each.verdict == "ruled-out"]
    assert out
    assert not {each.configuration for each in out} & {*tried}
    assert all(refuses(each.configuration) for each in out)


def test_nothing_that_compiles_is_an_error_with_the_reason() -> None:
    """The reason is that of the default."""
    with pytest.raises(UsageError, match=r"no configuration of `fake` can be compiled: too much"):
        searched(FakeSubject(refuses=lambda configuration: True))


def test_a_list_is_kept_to() -> None:
    """Of an author's list, only its members are looked at; the first is its default."""
    listed = tuple(
        Configuration.of({"block": b, "chunk": 16, "stages": s}) for b in (64, 128) for s in (1, 3)
    )
    outcome = searched(FakeSubject(0.05, Space(SPACE.tunables, listed)))
    assert {each.configuration for each in outcome.looked} == {*listed}
    assert outcome.winner.configuration == listed[3]
    assert outcome.timed[-1].configuration in listed


def test_a_long_list_is_sampled_and_says_so() -> None:
    """A limit of trials smaller than the list leaves some out."""
    listed = tuple(SPACE.all())
    outcome = searched(FakeSubject(space=Space(SPACE.tunables, listed)), Settings(trials=50))
    assert len(outcome.looked) == 50
    assert listed[0] in {each.configuration for each in outcome.looked}
    assert "94 of 144 configurations were left out" in outcome.notes[0]


def test_a_model_alone_ranks() -> None:
    """Without a device nothing is timed, and the model's best stands first."""
    outcome = searched(FakeSubject(model_error=0.0, device=""), Settings(timed=0))
    assert not outcome.timed
    assert outcome.winner.configuration == Configuration.of(
        {"block": 128, "chunk": 64, "stages": 3}
    )
    assert not outcome.sure


def test_time_that_is_over_ends_the_search() -> None:
    """The first configuration is timed in any case."""
    moments = iter(range(10_000))
    subject = FakeSubject()
    outcome = tuned(
        subject,
        Settings(seconds=0.5),
        workers=subject,
        clock=lambda: float(next(moments)),
    )
    assert len(outcome.timed) == 1


def test_each_configuration_is_timed_inside_what_is_put_around() -> None:
    """The profiler's scopes are such contexts."""
    entered: list[Configuration] = []

    class Around:
        def __init__(self, configuration: Configuration) -> None:
            entered.append(configuration)

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    subject = FakeSubject()
    tuned(subject, around=Around, workers=subject)
    assert entered == subject.timed
