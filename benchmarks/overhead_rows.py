"""The rows of the table of overheads: which work, run in which ways, held to which bar.

In: how many generations, and rounds where not as many as a row has.  Out: a record for each row,
with every pair.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overhead_ratios import (
    Interval,
    costs,
    interval,
    middle_seconds,
    ratio_interval,
    ratios,
)
from overhead_serving import Plan, Taken, Way, take_turns

PLAIN = Way("plain")
AGAIN = Way("plain again")
FULL = Way("tileprof", ())
SCOPES = Way("tileprof --context scopes", ("--context", "scopes"))
PYTHON = Way("tileprof --context python", ("--context", "python"))
DUTY = Way("tileprof --duty 0.05", ("--duty", "0.05"))
CUPTI = Way("CUPTI kernel records, dropped", peer="cupti")
PAUSED = Way("CUPTI after a record, paused", peer="cupti-paused")
FLOOR = Way("kernel records, an empty observer", peer="floor")
SHADOW = Way("Proton, shadow context", peer="proton-shadow")
PROTON = Way("Proton, Python context", peer="proton-python")
TORCH = Way("torch.profiler", peer="torch")
STACKS = Way("torch.profiler with stacks", peer="torch-stacks")

GPU_WAYS = (PLAIN, AGAIN, FULL, PYTHON, SCOPES, CUPTI, FLOOR, SHADOW, PROTON, TORCH, STACKS)
CPU_WAYS = (PLAIN, AGAIN, FULL, PYTHON, SCOPES, FLOOR, TORCH, STACKS)
PROFILERS = (PROTON, TORCH, STACKS)
"""Peers that say where in the program time goes, as we do.  Bare records are the floor of all of
them, and Proton without frames knows the scopes alone that a program opens."""

TURNS = {way.name: 15 for way in (SCOPES, PYTHON, CUPTI, FLOOR, SHADOW, PROTON)} | {
    AGAIN.name: 8, TORCH.name: 5, STACKS.name: 5,
}  # fmt: skip
"""Rounds of a generation in which the ways work that only stand beside ours.  What is held to a bar
needs the most pairs, and torch.profiler takes seconds to end a burst."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What holds for all rows of a run."""

    cpu: bool
    folder: Path
    generations: int
    rounds: int | None = None
    """In each generation; None: as many as the row has."""
    seconds: float = math.inf
    """For the bursts of a row."""

    @property
    def clock(self) -> str:
        """Which of a burst's times counts."""
        return "processor" if self.cpu else "seconds"

    @property
    def training(self) -> str:
        """The name of the small training."""
        return f"{'dispatch' if self.cpu else 'launch'}-bound training"

    def take(self, work: str, ways: Sequence[Way], bursts: Bursts) -> dict[str, Taken]:
        """Bursts of a work in all ways."""
        rounds = self.rounds or bursts.rounds
        plan = Plan(bursts.units, bursts.warm, rounds, self.generations, TURNS, self.seconds)
        return take_turns(work, ways, plan, self.cpu, self.folder)

    def bar(self, asked: float, aim: float | None, below_peers: bool = False) -> Bar:
        """A bar; the table of bars is for a GPU."""
        return Bar() if self.cpu else Bar(asked, aim, below_peers)


@dataclass(frozen=True)
class Bursts:
    """How long a burst is, and how many of them there are."""

    units: int
    warm: int
    rounds: int
    """In each generation."""
    unit: str = "step"

    def facts(self) -> Row:
        """What a row says of them."""
        return {"unit_of_bursts": self.unit, "units": self.units, "warm": self.warm}


@dataclass(frozen=True)
class Bar:
    """What is asked of the upper end of our interval, and what is aimed for."""

    asked: float | None = None
    aim: float | None = None
    below_peers: bool = False
    """Whether our figure must also be below that of every other profiler."""

    def met(self, mine: Row | None, held: dict[str, Row]) -> bool | None:
        """Whether it is; None where nothing was asked or measured."""
        if mine is None or self.asked is None:
            return None
        peers = [held[way.name]["value"] for way in PROFILERS if way.name in held]
        below = not self.below_peers or all(mine["value"] < peer for peer in peers)
        return bool(mine["high"] <= self.asked) and below


@dataclass(frozen=True)
class Figure:
    """How bursts become a number: a ratio to the plain program's, or µs a unit above it."""

    clock: str
    units: int = 0
    """Of a burst, for µs a unit; 0 for a ratio."""

    @property
    def name(self) -> str:
        """What is made of the pairs."""
        return f"{'mean' if self.units else 'geometric mean'} over all pairs"

    def of(self, taken: Taken, plain: Taken) -> Interval:
        """The figure of one way."""
        if self.units:
            return interval(costs(taken, plain, self.clock, self.units))
        return ratio_interval(ratios(taken, plain, self.clock))


def table(
    work: str, unit: str, taken: dict[str, Taken], figure: Figure, bar: Bar, ours: Way = FULL
) -> Row:
    """The record of a row: our figure is that of one way, all others stand beside it."""
    plain = taken[PLAIN.name]
    variants = [variant(t, plain, figure) for t in taken.values() if t is not plain]
    bursts = middle_seconds(plain, figure.clock) * 1e3 if plain.generations else None
    facts = {"figure": figure.name, "plain_ms": bursts, "clock": figure.clock}
    return {**row(work, unit, variants, bar, ours.name), **facts}


def row(work: str, unit: str, variants: list[Row], bar: Bar, ours: str = FULL.name) -> Row:
    """What all rows have; `ours` is the way that is held to the bar."""
    held = {v["name"]: v for v in variants if "value" in v}
    mine = held.get(ours)
    met = bar.met(mine, held)
    return {"work": work, "unit": unit, **asdict(bar), "ours": mine, "met": met,
            "variants": variants}  # fmt: skip


def variant(taken: Taken, plain: Taken, figure: Figure) -> Row:
    """One way's figure, or why there is none."""
    if not any(taken.generations) or not any(plain.generations):
        return {"name": taken.way.name, "error": taken.error or plain.error}
    found: Row = {"name": taken.way.name, **asdict(figure.of(taken, plain))}
    found["burst_ms"] = middle_seconds(taken, figure.clock) * 1e3
    if taken.error:
        found["error"] = taken.error
    kind = "stopping_processor" if figure.clock == "processor" else "stopping"
    stopping = statistics.median(a[kind] for g in taken.generations for a in g)
    if stopping > 1e-3:
        found["stopping_s"] = stopping
    if taken.endings and "facts" in taken.endings[-1]:
        found["facts"] = [end.get("facts", {}) for end in taken.endings]
    last = taken.generations[-1][-1]
    return found | {k: last[k] for k in ("host_events", "device_events") if k in last}


def pooled(measured: Sequence[Row]) -> Row:
    """Rows of one work that were measured at several times, as one with the pairs of all."""
    latest = measured[-1]
    figure = ratio_interval if latest["unit"] == "×" else interval
    variants = []
    for each in latest["variants"]:
        same = [v for m in measured for v in m["variants"] if v["name"] == each["name"]]
        pairs = [group for v in same for group in v.get("pairs", ())]
        facts = [fact for v in same for fact in v.get("facts", ())]
        held = each | ({"facts": facts} if facts else {})
        variants.append(held | (asdict(figure(pairs)) if pairs else {}))
    bar = Bar(latest["asked"], latest["aim"], latest["below_peers"])
    ours = latest["ours"]["name"] if latest["ours"] else FULL.name
    whole = latest | row(latest["work"], latest["unit"], variants, bar, ours)
    clocks = [clock for each in measured for clock in each["clocks"]]
    return whole | {"clocks": clocks, "dates": [each["date"] for each in measured]}


TRAINING = Bursts(4, 1, 80)
LAUNCHES = Bursts(2_000, 200, 60, "launch")
DEEP = Bursts(2_000, 200, 40, "launch")
GPT = Bursts(10, 1, 6)
"""After a wait the device runs dry until the host is ahead: as seldom as a training that logs."""
DUTY_STEPS = Bursts(19, 1, 16)
"""With its warm-up as many steps as `--duty 0.05` chooses one of, so that a burst has about one."""


def training(setting: Setting) -> Iterator[Row]:
    """Launch-bound training, with all peers."""
    taken = setting.take("training", CPU_WAYS if setting.cpu else GPU_WAYS, TRAINING)
    bar = setting.bar(1.20, 1.12, below_peers=True)
    yield table(setting.training, "×", taken, Figure(setting.clock), bar) | TRAINING.facts()


def launches(setting: Setting) -> Iterator[Row]:
    """`x.add_(1)` in a loop."""
    ways = (PLAIN, AGAIN, FULL, SCOPES, CUPTI, FLOOR, SHADOW, PROTON, TORCH)
    taken = setting.take("launches", CPU_WAYS if setting.cpu else ways, LAUNCHES)
    yield per_launch(setting, "`x.add_(1)`", taken, LAUNCHES, setting.bar(1.8, 1.0))


def deep(setting: Setting) -> Iterator[Row]:
    """The same under 50 frames."""
    ways = (PLAIN, AGAIN, FULL, SHADOW, PROTON)
    taken = setting.take("deep", CPU_WAYS if setting.cpu else ways, DEEP)
    yield per_launch(setting, "`x.add_(1)` under 50 frames", taken, DEEP, setting.bar(3.0, 1.0))


def per_launch(
    setting: Setting, name: str, taken: dict[str, Taken], bursts: Bursts, bar: Bar
) -> Row:
    """What a launch costs above the plain program's."""
    figure = Figure(setting.clock, bursts.units)
    return table(name, "µs a launch", taken, figure, bar) | bursts.facts()


def gpt(setting: Setting) -> Iterator[Row]:
    """Training of 355 M parameters, bound by the GPU."""
    taken = setting.take("gpt", (PLAIN, AGAIN, FULL, CUPTI), GPT)
    name = "GPT training, 355 M parameters, bf16"
    yield table(name, "×", taken, Figure(setting.clock), setting.bar(1.01, 1.0)) | GPT.facts()


def duty(setting: Setting) -> Iterator[Row]:
    """A twentieth of the steps profiled."""
    ways = (PLAIN, AGAIN, DUTY) if setting.cpu else (PLAIN, AGAIN, DUTY, PAUSED)
    taken = setting.take("training", ways, DUTY_STEPS)
    name, bar = f"{setting.training}, `--duty 0.05`", setting.bar(1.02, 1.01)
    found = table(name, "×", taken, Figure(setting.clock), bar, DUTY)
    yield found | DUTY_STEPS.facts()
