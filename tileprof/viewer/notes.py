"""Notes beside a node's numbers, and the header above them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.profile import DEVICE_WORK, SETUP, Profile, step_times
from tileprof.profile.imports import imports
from tileprof.profile.node_names import ONLY_COPIES
from tileprof.profile.shares import SAMPLES, Share, shares_of
from tileprof.profile.thread_times import PROCESSOR_WAIT
from tileprof.profile.transform.xla import THREADS
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.columns import visits
from tileprof.viewer.grid import Label
from tileprof.viewer.kernel_names import printed_forms
from tileprof.viewer.sample_shares import count_text, share_notes
from tileprof.viewer.text import Glyphs, clean, fit, paint


@dataclass(frozen=True, slots=True)
class VisitTimes:
    """Time of one visit of each node in ns: average, shortest and longest; NaN where unknown."""

    average: npt.NDArray[np.float64]
    shortest: npt.NDArray[np.float64]
    longest: npt.NDArray[np.float64]
    marks: npt.NDArray[np.float64]
    """Marks made in one visit, by which a site is measured."""
    perturbation: npt.NDArray[np.float64]
    """Time of these marks, as a share of the time that is left."""
    shares: Mapping[int, tuple[Share, ...]]
    """Shares of the sites that samplers saw, keyed by node."""
    sampled: Mapping[int, int]
    """Number of samples of each kernel launched to be sampled, keyed by node."""


_NOTABLE = 0.01
"""Smallest perturbation of a site that is shown, as a share of its time."""


def visit_times(profile: Profile) -> VisitTimes:
    """Return times of single visits; only own extremes count, not those of scopes within."""
    nothing = np.full(len(profile), np.nan)
    own: dict[str, Any] = dict(profile.own)
    return VisitTimes(
        _ratio(profile, "time", visits(profile)),
        own.get("time_min", nothing),
        own.get("time_max", nothing),
        _ratio(profile, "marks", visits(profile)),
        _ratio(profile, "mark_time", _total(profile, "block_time")),
        shares_of(profile),
        _sampled(profile),
    )


def _sampled(profile: Profile) -> dict[int, int]:
    """Return kernels that were launched to be sampled, also those that nobody saw."""
    tables = profile.tables
    counts = profile.total(SAMPLES) if SAMPLES in profile.metrics else np.zeros(len(profile))
    return {
        node: int(counts[node])
        for node, kernel in tables.node_kernels.items()
        if tables.kernels[kernel].attributes.get("instrument") == "sample"
    }


def _total(profile: Profile, metric: str) -> npt.NDArray[Any]:
    return profile.total(metric) if metric in profile.metrics else np.full(len(profile), np.nan)


def _ratio(profile: Profile, metric: str, below: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return totals of a metric over something; NaN where there is no such number."""
    found = np.full(len(profile), np.nan)
    np.divide(_total(profile, metric), below, out=found, where=below > 0)
    return found


def label_of(
    profile: Profile, node: int, lines: str, times: VisitTimes, glyphs: Glyphs, style: str = ""
) -> Label:
    """Return what stands right of a node's numbers: tree lines, its name, and further notes."""
    name, phase = profile.names[node], profile.phases[node]
    notes = tuple(clean(note, glyphs) for note in whereabouts(profile, node, times))
    shorter = printed_forms(name, glyphs) if profile.kinds[node] == "kernel" else ()
    above = int(profile.parents[node])
    mark = phase if above < 0 or profile.phases[above] != phase else ""
    return Label(clean(name, glyphs), lines, notes, style, shorter, mark)


def whereabouts(profile: Profile, node: int, times: VisitTimes) -> tuple[str, ...]:
    """Return a node's kind and place; for a scope within a kernel its visits."""
    kind, place = profile.kinds[node], profile.locations[node]
    match kind:
        case "frame":
            parts = ["import"] if imports(profile, node) else []
        case "site":
            seen = share_notes(times.shares.get(node, ()))
            parts = [*(seen or _visit(times, node) or [kind]), *_perturbation(times, node)]
        case "kernel" if node in times.sampled:
            parts = [kind, count_text(times.sampled[node])]
        case _:
            parts = [kind]
    return (*parts, place.short) if place else tuple(parts)


def once(profile: Profile) -> npt.NDArray[np.bool_]:
    """Return the nodes at the top that are set-up, imports, or XLA's threads that compile."""
    found = np.zeros(len(profile), bool)
    for top in profile.roots():
        compiles = profile.names[top] == THREADS
        found[top] = compiles or profile.phases[top].startswith(SETUP) or imports(profile, top)
    return found


def _visit(times: VisitTimes, node: int) -> list[str]:
    average, low, high = (
        format_value(float(column[node]), "ns")
        for column in (times.average, times.shortest, times.longest)
    )
    if not average:
        return []
    return [f"avg {average}", f"({low} – {high})"] if low and high else [f"avg {average}"]


def _perturbation(times: VisitTimes, node: int) -> list[str]:
    """Return by how much measuring changed a site, where that matters."""
    share, marks = float(times.perturbation[node]), float(times.marks[node])
    if not share >= _NOTABLE:
        return []
    each = f"{format_value(marks, '1')} mark{'' if marks == 1 else 's'} a visit"
    return [f"±{share:.1%} by {each}" if share < 0.1 else f"±{share:.0%} by {each}"]


def nothing_in(profile: Profile, width: int) -> str:
    """Return a sentence where the profile holds nothing that a view could show; else nothing."""
    if not len(profile):
        said = f"The profile is empty: {_why_empty(profile)}"
    elif all(metric.adds != "sum" for metric in profile.metrics.values()):
        said = "The profile holds a tree, but no metric that adds up: nothing was measured."
    else:
        return ""
    return textwrap.fill(said, width) + "\n"


def wall_seconds(profile: Profile) -> float:
    """Return how long the profiled program ran, in seconds of wall time; NaN where unknown."""
    seconds = _seconds(profile, "duration")
    return seconds if 0 < seconds < math.inf else math.nan


def headline(profile: Profile) -> str:
    """Return a sentence on how long the program ran, and what devices, or the host, did meanwhile.

    Nothing where the wall time is not known, or neither was timed.
    """
    seconds = wall_seconds(profile)
    if math.isnan(seconds):
        return ""
    ran = f"The program ran for {format_value(seconds * 1e9, 'ns')}"
    steps = ~np.array([phase.startswith(SETUP) for phase in profile.phases], bool)
    after = bool("set-up" in profile.tables.provenance and steps.all())
    if busy := _sum_in(profile, "time", steps):
        idle = _idle_by_reason(profile, steps)
        whole = sum(idle.values())
        share = format_percent(busy / (busy + whole if whole else seconds * 1e9))
        devices = "After set-up, devices" if after or not steps.all() else "Devices"
        found = f"{ran}. {devices} were busy for {format_value(busy, 'ns')} ({share} %)"
        if launches := _launches(profile, steps):
            found += f" with {launches:,} kernel{'s' * (launches > 1)} and copies"
        of_host = _sum_in(profile, "cpu_time", steps)
        said = f" The host's cpu_time is {format_value(of_host, 'ns')}." if of_host else ""
        return f"{found}{_idle(idle)}.{said}"
    if host := float(profile.whole.get("cpu_time", 0)):
        took, of_wall = format_value(host, "ns"), host / (seconds * 1e9)
        name = "cpu_time after set-up" if after else "cpu_time"
        if after:
            # How long the program ran after its set-up is not known.
            compared = ""
        elif of_wall > _SEVERAL:
            compared = f": {of_wall:,.1f} threads at a time on average"
        else:
            compared = f", {format_percent(of_wall)} % of that"
        return f"{ran}; {name} (wall time of its threads, waiting included) is {took}{compared}."
    return ""


def _sum_in(profile: Profile, metric: str, nodes: npt.NDArray[np.bool_]) -> float:
    """Return the sum of a metric over some nodes, with what was folded into them."""
    if metric not in profile.metrics:
        return 0.0
    return float(profile.own[metric][nodes].sum() + profile.absorbed[metric][nodes].sum())


def _launches(profile: Profile, nodes: npt.NDArray[np.bool_]) -> int:
    works = np.array([kind in DEVICE_WORK for kind in profile.kinds], bool)
    if "count" not in profile.metrics:
        return 0
    return int(profile.own["count"][works & nodes].sum())


def _idle_by_reason(profile: Profile, nodes: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Return how long devices were idle between their work, in ns, by what they waited for.

    Gaps in which copies run are left out: the headline counts them as busy.
    """
    if "idle_time" not in profile.metrics:
        return {}
    own, sums = profile.own["idle_time"], dict[str, float]()
    for node in np.flatnonzero((own > 0) & nodes).tolist():
        name = profile.names[node]
        if name != ONLY_COPIES:
            sums[name] = sums.get(name, 0.0) + float(own[node])
    return sums


def _idle(sums: Mapping[str, float]) -> str:
    """Return the idle time with its most frequent reasons; nothing where there was none."""
    whole = sum(sums.values())
    if not whole:
        return ""
    most = sorted(sums, key=lambda name: -sums[name])[:_REASONS]
    named = ", ".join(f"{name} {format_percent(sums[name] / whole)} %" for name in most)
    return f", and idle for {format_value(whole, 'ns')} in between ({named})"


_SEVERAL = 1.05
"""Threads at a time, on average, from which a headline says how many there were: the begin and the
end of a recording are not that exact."""
_REASONS = 2
"""Largest number of reasons of idle time that a headline has."""


def _why_empty(profile: Profile) -> str:
    seconds = wall_seconds(profile)
    if math.isnan(seconds):
        return "nothing was recorded."
    return (
        f"nothing was recorded in {format_value(seconds * 1e9, 'ns')}. Python code is seen by"
        " samples every few milliseconds; run more of it, or name parts of it with"
        " `tileprof.scope`, which counts each visit."
    )


_MISSING = {
    "ended early": "The program ended {}.",
    "gpu": "GPU {}",
    "gaps": "GPU not recorded meanwhile: {}",
    "lost": "lost: {}",
    "overwritten": "the timeline has lost {}",
    "CTAs left out": "timelines of CTAs left out: {}",
    "allocations not recorded": "PyTorch's allocations were not recorded: {}",
    "pc sampling failed": "instructions were not sampled: {}",
    "pc samples lost": "samples of instructions: {}",
    "counters not read": "hardware counters were not read: {}",
    "counters not sampled": "hardware counters were not sampled: {}",
    "native recorder": "operations and GPUs were not recorded: {}",
}
"""Keys of the provenance that say what a profile does not hold."""


def missing_from(profile: Profile, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return what was not recorded, or was lost, one line each; usually none."""
    known = profile.tables.provenance
    told = [text.format(known[key]) for key, text in _MISSING.items() if known.get(key)]
    told += _wait_for_processors(profile)
    return [paint(fit(clean(line, glyphs), width, glyphs), "33", color) for line in told]


def _wait_for_processors(profile: Profile) -> list[str]:
    """Return a sentence where threads of this program or others made the main thread wait long."""
    waited, ran = _seconds(profile, PROCESSOR_WAIT), wall_seconds(profile)
    if not waited >= max(_LONG_WAIT * ran, _LONG_WAIT_S):
        return []
    waited_text, ran_text = (format_value(each * 1e9, "ns") for each in (waited, ran))
    return [
        f"Processors were busy: the main thread waited {waited_text} of {ran_text} for one;"
        " times include that."
    ]


def _seconds(profile: Profile, key: str) -> float:
    """Return a fact of the provenance that is a time in seconds; NaN where it is unknown."""
    number, _, unit = profile.tables.provenance.get(key, "").partition(" ")
    try:
        return float(number) if unit == "s" else math.nan
    except ValueError:
        return math.nan


_LONG_WAIT, _LONG_WAIT_S = 0.4, 1.0
"""Least share of a run, and least seconds, of the main thread's wait for a processor that views
report. On an idle machine such a run would take less than two thirds of its time."""


def steps_in(profile: Profile) -> list[str]:
    """A sentence on what a profile of some of the steps says of all; none for other profiles."""
    known = step_times(profile.tables.provenance)
    if known is None:
        setup = profile.tables.provenance.get("set-up", "")
        left_out = setup and not _shows_setup(profile)
        return [f"Left out here, as set-up: {setup}."] if left_out else []
    if not known.steps:
        return ["No whole step was seen: all is set-up, and was recorded in full."]
    said = [f"{known.recorded:,} of {known.steps:,} steps were recorded"]
    for metric, of_one in known.means.items():
        whole = _estimate(*known.whole(metric))
        said.append(f"{metric} {_estimate(*of_one)} a step, {whole} in all")
        if metric == "cpu_time" and known.skipped == known.skipped:
            said[-1] += f" (where not recorded {format_value(known.skipped, 'ns')} a step)"
    if not _shows_setup(profile):
        said.append("set-up is not shown")
    intervals = any(error > 0 for _, error in known.means.values())
    return ["; ".join(said) + ("; ± for 95 %." if intervals else ".")]


def _shows_setup(profile: Profile) -> bool:
    return any(each.phase.startswith(SETUP) for each in profile.symbols)


def _estimate(mean: float, error: float) -> str:
    spread = f" ± {format_value(error, 'ns')}" if error > 0 else ""
    return f"{format_value(mean, 'ns')}{spread}"


def title_of(profile: Profile, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return a line with the profiled command and device; none where they are unknown."""
    known = profile.tables.provenance
    named = [_named(each, known) for each in known.get("device", "").split(", ")]
    parts = [text for text in (known.get("command", ""), ", ".join(named)) if text]
    if not parts:
        return []
    return [paint(fit(clean(", ".join(parts), glyphs), width, glyphs), "1", color)]


def _named(device: str, known: Mapping[str, str]) -> str:
    """Return `cuda:0 (NVIDIA H200)` where known: the name goes before the first comma."""
    name = known.get(device, "").partition(", ")[0] if device.startswith("cuda:") else ""
    return f"{device} ({name})" if name else device
