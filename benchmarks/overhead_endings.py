"""A million kernels in one process: what it takes to finish, to store, and to hold them.

In: the answers of processes that ran through, and what torch.profiler counts in a step.  Out: rows
in which each figure is a single run's; on the CPU operations take the place of kernels.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from overhead_rows import FULL, PLAIN, PROTON, TORCH, Bar, Figure, Row, Setting, row, table
from overhead_serving import Answer, Plan, Taken, take_turns

ROUNDS = 10
RUNS = 2
WITNESSED = 20
"""Steps that torch.profiler sees at a time: it keeps every event."""


@dataclass(frozen=True)
class Ending:
    """Figures of a run, for a million events; None where a way has none."""

    finishing: float
    """Seconds from the program's last line to the written profile."""
    size: float | None = None
    """MB of the profile."""
    growth: float | None = None
    """MB of memory, above what the plain program's grows by."""


def finishing(setting: Setting) -> Iterator[Row]:
    """The rows, and the mean ratio over whole runs, in which the regular writing shows."""
    steps = 21 if setting.cpu else 130
    each, torch = witness(setting)
    ways = (PLAIN, FULL) if setting.cpu else (PLAIN, FULL, PROTON)
    plan = Plan(steps, 0, ROUNDS, RUNS, endings_apart=True)
    taken = take_turns("training", ways, plan, setting.cpu, setting.folder)
    found = {TORCH.name: [torch]} | {
        name: endings(t, taken[PLAIN.name], each * steps)
        for name, t in taken.items()
        if name != PLAIN.name
    }
    what = "operations" if setting.cpu else "kernels"
    for shown in rows(setting, found, what):
        yield {**shown, "events_a_step": each, "steps": steps * ROUNDS}
    name = f"{setting.training}, mean over 1 M {what}"
    yield table(name, "×", taken, Figure(setting.clock), Bar())


def witness(setting: Setting) -> tuple[float, Ending]:
    """Kernels (operations) in a step, and what torch.profiler takes to finish a million."""
    plan = Plan(WITNESSED, 0, 2, 1)
    taken = take_turns("training", (TORCH,), plan, setting.cpu, setting.folder)[TORCH.name]
    if not taken.generations:
        raise RuntimeError(f"torch.profiler, which counts, failed: {taken.error}")
    last = taken.generations[-1][-1]
    events = last["host_events" if setting.cpu else "device_events"]
    stopping = last["stopping_processor" if setting.cpu else "stopping"]
    return events / WITNESSED, Ending(stopping * 1e6 / events)


def endings(taken: Taken, plain: Taken, events: float) -> list[Ending]:
    """One for each run, of so many events in a burst."""
    found = []
    for bursts, end, beside in zip(taken.generations, taken.endings, plain.generations):
        # The writing of our profile comes after the program's end, a peer's before it.
        after = (end.get("written_ns", end["ended_ns"]) - end["ended_ns"]) / 1e9
        million = events * len(bursts) / 1e6
        growing = events * (len(bursts) - 2) / 1e6
        found.append(
            Ending(
                (max(after, 0.0) + end["finishing"]) / million,
                end["size"] / 1e6 / million if "size" in end else None,
                (grown(bursts) - grown(beside)) / 1e6 / growing,
            )
        )
    return found


def grown(bursts: list[Answer]) -> float:
    """Bytes of memory from the end of the second burst to that of the last."""
    return float(bursts[-1]["memory"] - bursts[1]["memory"])


def rows(setting: Setting, found: dict[str, list[Ending]], what: str) -> Iterator[Row]:
    """Finishing, file and memory."""
    columns = {
        f"finishing 1 M {what}": ("s", "finishing", setting.bar(0.5, 0.2)),
        f"profile of 1 M {what}": ("MB", "size", setting.bar(1.0, None)),
        f"memory for 1 M {what}": ("MB", "growth", setting.bar(20.0, None)),
    }
    for name, (unit, field, bar) in columns.items():
        variants = []
        for way, ends in found.items():
            values = [v for v in (getattr(end, field) for end in ends) if v is not None]
            if values:
                middle = statistics.median(values)
                span = {"value": middle, "low": min(values), "high": max(values)}
                variants.append({"name": way, **span, "pairs": [values]})
        yield row(name, unit, variants, bar)
