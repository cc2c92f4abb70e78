"""Reasons to doubt a measured time, as codes with numbers, and the sentence for each code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Literal

from .gpu_state import GpuState

Code = Literal[
    "noise", "few_rounds", "drift", "throttled", "clock", "busy_gpu", "busy_host", "launch_bound",
    "other_streams", "short", "gate",
]  # fmt: skip

_CLOCK_RANGE = 0.05
"""Share by which the SM clock may vary."""
_BUSY = 0.05
"""Share of a second for which a GPU may have been in use before."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason; `facts` are what the sentence of its code states."""

    code: Code
    facts: Mapping[str, float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        return _SENTENCES[self.code].format(**self.facts).replace("%", " %")


_SENTENCES: dict[Code, str] = {
    "noise": "noise: the 95% interval is ±{uncertainty:.1%} after {seconds:.1f} s, and "
    "±{within:.1%} was asked for; give it more --seconds, or a quieter machine",
    "few_rounds": "only {rounds:.0f} rounds fitted into {seconds:g} s, so the interval is a guess; "
    "give it more --seconds",
    "drift": "drift: calls of {name} took {change:+.1%} in the second half of the rounds; the "
    "clock or the machine's load changed",
    "throttled": "throttling: the GPU held its clock back ({reasons}) in {share:.0%} of the "
    "rounds, at up to {celsius:.0f} °C",
    "clock": "the SM clock moved between {low:.0f} and {high:.0f} MHz",
    "busy_gpu": "the GPU was busy before anything ran here ({busy:.0%} of the last second): "
    "another program uses it",
    "busy_host": "the machine was busy before anything ran here (load {load:.1f} on {cores:.0f} "
    "cores)",
    "launch_bound": "{name} is launch-bound: the GPU had nothing left to do when the host, which "
    "takes {issue_us:.1f} µs for a call, was through; --graph times the GPU alone",
    "other_streams": "the GPU still worked on other streams for {late_us:.0f} µs after each batch "
    "of {name}, which the events do not see; use --clock host",
    "short": "{name} is short: two events alone are {empty_us:.1f} µs apart, which is part of the "
    "time of each call",
    "gate": "the gate is undecided: {low:.3f} to {high:.3f} times the {name} lies on both sides "
    "of the limit",
}


def of_gpu(states: Sequence[GpuState]) -> Iterator[Doubt]:
    """Yield the doubts that states of a GPU during the measurement give."""
    held = [state for state in states if state.held_back]
    if held:
        reasons = dict(zip(chain.from_iterable(s.held_back for s in held), repeat(None)))
        yield Doubt(
            "throttled",
            {
                "reasons": ", ".join(reasons),
                "share": len(held) / len(states),
                "celsius": max((s.celsius or 0) for s in states),
            },
        )
    clocks = [state.sm_mhz for state in states if state.sm_mhz]
    if clocks and max(clocks) - min(clocks) > _CLOCK_RANGE * max(clocks):
        yield Doubt("clock", {"low": min(clocks), "high": max(clocks)})


def load_average() -> float:
    """Return how many processes wanted to run in the last minute, on average; 0 where the system
    does not count them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def known_before(gpu: GpuState | None, load: float, cores: int) -> tuple[Doubt, ...]:
    """Return the doubts about a machine before anything runs: `load` is its load average.

    Without a GPU the host's load counts, with one the GPU's use.
    """
    if gpu is not None:
        busy = gpu.busy or 0.0
        return (Doubt("busy_gpu", {"busy": busy}),) if busy > _BUSY else ()
    return (Doubt("busy_host", {"load": load, "cores": cores}),) if load >= cores else ()
