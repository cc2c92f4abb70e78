"""The rows of the table of overheads: which work, run in which ways, held to which bar.

In: how many generations and rounds.  Out: a record for each row, with every pair.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overhead_ratios import Interval, costs, interval, middle_seconds, ratios
from overhead_serving import Plan, Taken, Way, take_turns

PLAIN = Way("plain")
AGAIN = Way("plain again")
FULL = Way("tileprof", ())
SCOPES = Way("tileprof --context scopes", ("--context", "scopes"))
PYTHON = Way("tileprof --context python", ("--context", "python"))
DUTY = Way("tileprof --duty 0.05", ("--duty", "0.05"))
CUPTI = Way("CUPTI kernel records, dropped", peer="cupti")
SHADOW = Way("Proton, shadow context", peer="proton-shadow")
PROTON = Way("Proton, Python context", peer="proton-python")
TORCH = Way("torch.profiler", peer="torch")
STACKS = Way("torch.profiler with stacks", peer="torch-stacks")

GPU_WAYS = (PLAIN, AGAIN, FULL, SCOPES, CUPTI, SHADOW, PROTON, TORCH, STACKS)
CPU_WAYS = (PLAIN, AGAIN, FULL, PYTHON, SCOPES, TORCH, STACKS)
PROFILERS = (SHADOW, PROTON, TORCH, STACKS)
"""Peers that say where time goes, as we do; bare records are the floor of all of them."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What holds for all rows of a run."""

    cpu: bool
    folder: Path
    generations: int
    rounds: int

    @property
    def clock(self) -> str:
        """Which of a burst's times counts."""
        return "processor" if self.cpu else "seconds"

    @property
    def training(self) -> str:
        """The name of the small training."""
        return f"{'dispatch' if self.cpu else 'launch'}-bound training"

    def take(self, work: str, ways: Sequence[Way], units: int, warm: int) -> dict[str, Taken]:
        """Bursts of a work in all ways."""
        plan = Plan(units, warm, self.rounds, self.generations)
        return take_turns(work, ways, plan, self.cpu, self.folder)

    def bar(self, asked: float, aim: float | None, below_peers: bool = False) -> Bar:
        """A bar; the table of bars is for a GPU."""
        return Bar() if self.cpu else Bar(asked, aim, below_peers)


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
    by_mean: bool = False

    def of(self, taken: Taken, plain: Taken) -> Interval:
        """The figure of one way."""
        if self.units:
            return interval(costs(taken, plain, self.clock, self.units), self.by_mean)
        return interval(ratios(taken, plain, self.clock), self.by_mean)


def table(
    work: str, unit: str, taken: dict[str, Taken], figure: Figure, bar: Bar, ours: Way = FULL
) -> Row:
    """The record of a row: our figure is that of one way, all others stand beside it."""
    plain = taken[PLAIN.name]
    variants = [variant(t, plain, figure) for t in taken.values() if t is not plain]
    bursts = middle_seconds(plain, figure.clock) * 1e3 if plain.generations else None
    return {**row(work, unit, variants, bar, ours), "plain_ms": bursts, "clock": figure.clock}


def row(work: str, unit: str, variants: list[Row], bar: Bar, ours: Way = FULL) -> Row:
    """What all rows have."""
    held = {v["name"]: v for v in variants if "value" in v}
    mine = held.get(ours.name)
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


def training(setting: Setting) -> Iterator[Row]:
    """Launch-bound training, with all peers."""
    units, warm = (10, 1) if setting.cpu else (20, 3)
    taken = setting.take("training", CPU_WAYS if setting.cpu else GPU_WAYS, units, warm)
    bar = setting.bar(1.20, 1.12, below_peers=True)
    found = table(setting.training, "×", taken, Figure(setting.clock), bar)
    yield {**found, "unit_of_bursts": "step", "units": units, "warm": warm}


def launches(setting: Setting) -> Iterator[Row]:
    """`x.add_(1)` in a loop."""
    ways = (PLAIN, AGAIN, FULL, SCOPES, CUPTI, SHADOW, PROTON, TORCH)
    yield per_launch(setting, "launches", "`x.add_(1)`", ways, setting.bar(1.8, 1.0))


def deep(setting: Setting) -> Iterator[Row]:
    """The same under 50 frames."""
    ways = (PLAIN, AGAIN, FULL, SHADOW, PROTON)
    yield per_launch(setting, "deep", "`x.add_(1)` under 50 frames", ways, setting.bar(3.0, 1.0))


def per_launch(setting: Setting, work: str, name: str, ways: Sequence[Way], bar: Bar) -> Row:
    """What a launch costs above the plain program's."""
    units, warm = (10_000, 500) if setting.cpu else (40_000, 2_000)
    taken = setting.take(work, CPU_WAYS if setting.cpu else ways, units, warm)
    found = table(name, "µs a launch", taken, Figure(setting.clock, units), bar)
    return {**found, "unit_of_bursts": "launch", "units": units, "warm": warm}


def gpt(setting: Setting) -> Iterator[Row]:
    """Training of 355 M parameters, bound by the GPU."""
    taken = setting.take("gpt", (PLAIN, AGAIN, FULL), 4, 1)
    name = "GPT training, 355 M parameters, bf16"
    found = table(name, "×", taken, Figure(setting.clock), setting.bar(1.01, 1.0))
    yield {**found, "unit_of_bursts": "step", "units": 4, "warm": 1}


def duty(setting: Setting) -> Iterator[Row]:
    """A twentieth of the steps profiled; the mean, for the cost falls on few steps."""
    taken = setting.take("training", (PLAIN, AGAIN, DUTY), 60, 3)
    figure = Figure(setting.clock, by_mean=True)
    name = f"{setting.training}, `--duty 0.05`"
    found = table(name, "×", taken, figure, setting.bar(1.02, 1.01), DUTY)
    yield {**found, "unit_of_bursts": "step", "units": 60, "warm": 3}
