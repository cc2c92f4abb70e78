"""The order of a list's configurations by the model of tiles, and which of them are kept.

In: programs of configurations, a GPU, and a way to compile one.  Out: `Ranked` for each, in the
author's order.  Machine code is made for the best until the best are all compiled: its registers
correct the estimates of the others, what spills or does not fit is left out, and configurations
with equal machine code count once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tileprof.remarks.pruning import (
    CannotRun,
    ExpectedNotToFit,
    KeptForTiming,
    KeptUnranked,
    ModelFailed,
    NotWorthTiming,
    RefusedByTriton,
    SameCode,
    TooManyRegisters,
    TooMuchShared,
)
from tileprof.remarks.statement import Decision, Reason
from tileprof.tuning.machine import Gpu
from tileprof.tuning.model import Estimate, estimate

from .configured import Configured, NotKnown, Resources
from .facts import facts_of
from .numbers import COMPILED_FACTOR, FEWEST_KEPT, KEPT_SHARE, SLACK, SPILL_BYTES, STAGES_KEPT, TIE
from .traffic import Traffic, traffic_of

Compile = Callable[[Sequence[int]], "Sequence[Resources | Reason | NotKnown]"]
"""Compiles the configurations at some positions; gives for each what it takes, the reason where
Triton refuses it, or `NotKnown` where Triton fails."""


@dataclass(frozen=True)
class Ranked:
    """Estimate of the model for one configuration."""

    name: str
    """The configuration, in a line."""
    kept: bool
    decision: Decision
    model: Estimate | None = None
    held: Resources | None = None
    place: int = -1
    """Place in the model's order, from 0; -1: it has none."""


@dataclass
class _State:
    """Facts about one configuration while they are ranked."""

    given: Configured | None
    held: Resources | None = None
    traffic: Traffic | None = None
    model: Estimate | None = None
    against: Reason | None = None
    """Why it cannot run."""
    unknown: Reason | None = None
    """Why the model has no opinion."""
    same: int = -1
    """Position of an earlier configuration with the same machine code."""

    @property
    def stands(self) -> bool:
        """Whether it takes part in the order."""
        return self.model is not None and self.against is None and self.same < 0

    @property
    def limits(self) -> float:
        """Sum of the times that each limit alone would allow: the lower, the more room is left."""
        return sum(self.model.limits.values()) if self.model and self.model.limits else math.inf

    @property
    def ns(self) -> float:
        """Time by the model."""
        return self.model.ns if self.model else math.inf


@dataclass
class _Ranking:
    states: list[_State]
    machine: Gpu
    values: Sequence[Mapping[str, float]]
    """Numbers of each configuration, by name."""
    ratio: float = 1.0
    """Registers of compiled configurations over their estimates."""
    codes: dict[str, int] = field(default_factory=dict)

    def order(self) -> list[int]:
        """Return the positions of those that stand, the fastest by the model first.

        Among those that the model does not tell apart, whose other limits leave about as much room,
        the next one is that which differs most from all before it.  What spills is behind what
        does not, and so is the third of those that differ in their stages alone.
        """
        standing = [at for at, each in enumerate(self.states) if each.stands]
        left = sorted(standing, key=lambda at: (_spills(self.states[at]), self.states[at].ns))
        made: list[int] = []
        apart = dict.fromkeys(left, math.inf)
        while left:
            first = self.states[left[0]]
            tied = [
                at
                for at in left
                if self.states[at].ns <= first.ns * (1 + TIE)
                and _spills(self.states[at]) == _spills(first)
            ]
            least = min(self.states[at].limits for at in tied)
            tied = [at for at in tied if self.states[at].limits <= least * (1 + SLACK)]
            # The first of equally distant ones, so that the order does not depend on chance.
            chosen = max(tied, key=lambda at: (apart[at], -self.states[at].limits))
            if not made:
                chosen = left[0]
            left.remove(chosen)
            made.append(chosen)
            for at in left:
                apart[at] = min(apart[at], _distance(self.values[at], self.values[chosen]))
        seen: dict[tuple[tuple[str, float], ...], int] = {}
        nth = {}
        for at in made:
            own = tuple(e for e in self.values[at].items() if e[0] != "num_stages")
            nth[at] = seen[own] = seen.get(own, 0) + 1
        return sorted(made, key=lambda at: (_spills(self.states[at]), nth[at] > STAGES_KEPT))

    def drop_alike(self) -> None:
        """Leave out what has the program of an earlier configuration, and the same launch."""
        known: dict[tuple[object, ...], int] = {}
        for at, each in enumerate(self.states):
            if each.given is None or each.against is not None or not each.given.alike:
                continue
            key = each.given.alike, each.given.grid, tuple(each.given.arguments.items())
            if (first := known.setdefault(key, at)) != at:
                each.same = first

    def estimate(self) -> None:
        for each in self.states:
            if each.given is None or each.against is not None or each.unknown is not None:
                continue
            if each.same >= 0:
                continue
            try:
                if each.traffic is None:
                    each.traffic = traffic_of(each.given, self.machine.sms)
                facts = facts_of(each.given, each.held, each.traffic, self.ratio)
                each.model = estimate(facts, self.machine)
            except NotKnown as error:
                each.unknown, each.model = error.reason, None
            except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
                # A fault of the model costs time in the tuner, never the author's program.
                each.unknown = ModelFailed(message=f"{type(error).__name__}: {error}")
                each.model = None

    def take(self, at: int, found: Resources | Reason | NotKnown) -> None:
        """Take what compiling a configuration gave."""
        state = self.states[at]
        assert state.given is not None
        if isinstance(found, NotKnown):
            state.unknown, state.model = found.reason, None
            return
        if isinstance(found, Reason):
            state.against = found
            return
        state.held = found
        limit = self.machine.multiprocessor.shared_per_block
        if found.shared > limit:
            state.against = TooMuchShared(needed=found.shared, there=limit)
        elif found.registers * state.given.threads > self.machine.multiprocessor.registers:
            state.against = TooManyRegisters()
        elif found.code and found.code in self.codes:
            first = self.codes[found.code]
            other = self.states[first].given
            if other is not None and other.grid == state.given.grid:
                state.same = first
        elif found.code:
            self.codes[found.code] = at

    def learn(self) -> None:
        """Correct the estimate of registers by those of compiled configurations."""
        ratios = []
        for each in self.states:
            if each.given is not None and each.held is not None and each.traffic is not None:
                facts = facts_of(each.given, None, each.traffic)
                needed = facts.launches[0].registers + facts.launches[0].lacking
                there = each.held.registers + each.held.spilled / 4
                ratios.append(there / max(needed, 1))
        if ratios:
            self.ratio = statistics.median(ratios)


def ranked(
    names: Sequence[str],
    values: Sequence[Mapping[str, float]],
    given: Mapping[int, Configured],
    refused: Mapping[int, Reason],
    unknown: Mapping[int, Reason],
    machine: Gpu,
    compile_: Compile | None,
    keep: int | None = None,
) -> tuple[Ranked, ...]:
    """Rank configurations; `values`: their numbers by name.

    `compile_`: None where machine code is not to be made.

    Each position is in one of `given`, `refused` and `unknown`; the last are kept.
    """
    states = [
        _State(given.get(at), against=refused.get(at), unknown=unknown.get(at))
        for at in range(len(names))
    ]
    ranking = _Ranking(states, machine, values)
    ranking.drop_alike()
    ranking.estimate()
    wanted = keep if keep is not None else kept_of(len(names))
    left = COMPILED_FACTOR * wanted if compile_ is not None else 0
    while left > 0 and compile_ is not None:
        todo = [at for at in ranking.order()[:wanted] if states[at].held is None][:left]
        if not todo:
            break
        left -= len(todo)
        for at, found in zip(todo, compile_(todo), strict=True):
            ranking.take(at, found)
        ranking.learn()
        ranking.estimate()
    order = ranking.order()
    return tuple(_said(at, names, states, order, wanted) for at in range(len(names)))


def kept_of(count: int) -> int:
    """Return how many of a list's configurations are kept."""
    return max(FEWEST_KEPT, math.ceil(count * KEPT_SHARE))


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how far two configurations are apart, in doublings of their numbers."""
    return sum(
        abs(math.log2(max(value, 0.5) / max(other.get(name, value), 0.5)))
        for name, value in one.items()
    )


def _spills(state: _State) -> bool:
    return state.held is not None and state.held.spilled >= SPILL_BYTES


def _said(
    at: int, names: Sequence[str], states: Sequence[_State], order: Sequence[int], wanted: int
) -> Ranked:
    state = states[at]
    made = Ranked(names[at], False, CannotRun(why=TooManyRegisters()), state.model, state.held)
    if state.unknown is not None:
        return replace(made, kept=True, decision=KeptUnranked(why=state.unknown))
    if state.against is not None:
        return replace(made, decision=CannotRun(why=state.against))
    if state.same >= 0:
        return replace(made, decision=SameCode(other=names[state.same]))
    place = order.index(at)
    if place < wanted:
        return replace(made, kept=True, decision=KeptForTiming(place=place + 1), place=place)
    best = min(states[each].ns for each in order)
    if not math.isfinite(state.ns):
        return replace(made, decision=ExpectedNotToFit(), place=place)
    ratio = state.ns / best
    return replace(made, decision=NotWorthTiming(ratio=ratio), place=place)


def refusal(message: str) -> Reason:
    """Return the reason of a configuration that Triton refuses."""
    return RefusedByTriton(message=message)
