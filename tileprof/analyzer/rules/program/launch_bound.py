"""Idle devices, by what they wait for: the launch, the data, the host.

Static: none. Dynamic: gaps by their reason, the host's time a launch beside that of a kernel. Where
launches come late the host is the limit; a graph launches without it. Its replay takes as long as
its kernels: what lies between two of them is in the times that a recorder gives them, as measured.
Those of several streams overlap when the host no longer deals them out one by one: then a step
takes the busiest stream's time at least, and likely the geometric mean of that and of all. Larger
batches bring as much where launches are short or do not fill the device, and more in the end: such
time (`shortfalls`, and floors that launching sets) is there once for k batches of one launch.
Where the same thread loads the data, only the gaps go.

Gaps before copies of the host's data are the data loader's as far as the host was in it meanwhile.
Where the host itself waits for longer than the device does, it is ahead of it: then its waits make
the gaps, and `transfers` tells of them, or `small-kernels` where it waits as the device's queue of
launches is full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import (
    AFTER_COPY,
    DEPENDENT,
    FOR_DATA,
    FOR_HOST,
    LATE,
    Contexts,
    Mask,
)
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving, gain_of
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.fixes import PINNED_MEMORY, Fix, LoaderWorkers, OptimizerForm, compiled_at
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COOL, LONGEST_SAVING, MOST_OF_A_KIND
from tileprof.analyzer.program.masks import inclusive, nodes_of
from tileprof.analyzer.rules.program.numbers import (
    LAUNCH_BOUND_COMPILED,
    LAUNCH_BOUND_LEAST,
    LAUNCH_BOUND_MORE,
    LAUNCH_BOUND_MOST,
    LAUNCH_BOUND_OPTIMIZER,
    LAUNCH_BOUND_SURE,
    LAUNCH_BOUND_WORKERS,
)
from tileprof.analyzer.shortfalls import Shortfall, Shortfalls
from tileprof.once import cached_property
from tileprof.profile import optimizers_work

_EMPTY: tuple[Shortfall, ...] = ("few-blocks", "short-launch")
_LATE = (
    "The host is the limit: launch all of a step at once as a CUDA graph (torch.compile with"
    ' mode="reduce-overhead", torch.cuda.graph, in training torch.cuda.make_graphed_callables), or'
    " give each launch more work by larger batches. Fewer and larger kernels (fused or foreach"
    " optimizers, torch.compile without graphs) bring less."
)
_LATE_IN_JAX = (
    "The host is the limit: launch fewer and larger programs. Put more of the step under one"
    " jax.jit, so that one program is dispatched instead of many, run several steps in one program"
    " (jax.lax.scan), or take larger batches."
)
_DATA = (
    "The next batch is not ready in time: use more workers (num_workers), pin_memory and"
    " prefetch_factor of the DataLoader, or less work for each element."
)
_COMPILED = (
    "this gain is that of a CUDA graph or larger batches; torch.compile without graphs brought"
    " {:g} to {:g} times in 21 of 22 measured programs whose launches come late"
).format(*LAUNCH_BOUND_COMPILED)
_OPTIMIZER = (
    "{} of these gaps are in optimizers: a fused or foreach form alone likely makes the program"
    " {:.2f}× as fast"
)
_HOST = "Do this host work before the step, in another thread, or on the device."


def find(program: Program) -> Iterator[Draft]:
    """Where devices wait."""
    tree = Contexts(program)
    if not program.device_time or not tree.gaps.any():
        return
    counted = ~tree.compiling
    loaders = tree.below(tree.loaders) & tree.steps.inside
    loading = float(tree.own("cpu_time")[loaders].sum())
    yield from _launches(tree, tree.idle(LATE) & counted, loading)
    if tree.steps.repeats:
        seen, copied = (tree.idle(reason) & counted for reason in (FOR_DATA, AFTER_COPY))
        yield from _data(tree, seen, copied, loading)
        yield from _host(tree, tree.idle(FOR_HOST) & counted)


def _launches(tree: Contexts, gaps: Mask, loading: float) -> Iterator[Draft]:
    """Yield what late launches cost; `loading` is the host's time in data loaders, ns."""
    late = float(tree.gaps[gaps].sum())
    if tree.share(late) < COOL or tree.host_waits(tree.steps.with_ends) > late:
        return
    around = _around(tree, gaps)
    where = _longest(tree, gaps) if around is None else around
    evidence = [
        Evidence(
            "activities",
            f"{percent(tree.share(late))} of {tree.whose} is lost in"
            f" {tree.count[gaps].sum():,.0f} gaps before late launches",
        )
    ]
    if told := _lines(tree, gaps):
        evidence.append(Evidence("activities", told))
    if told := _a_launch(tree, where):
        evidence.append(Evidence("activities", told))
    evidence.append(Evidence("activities", tree.recording))
    closed = tree.late * tree.unrecorded / tree.unrecorded_time
    sure, likely, most = LAUNCH_BOUND_SURE * closed, closed, tree.share(late)
    if tree.share(loading) < COOL:
        work = _Work(tree)
        gain = work.gain
        likely = 1 - 1 / gain
        sure = max(LAUNCH_BOUND_SURE * likely, 1 - 1 / max(LAUNCH_BOUND_LEAST * gain, 1.0))
        most = 1 - work.left(LAUNCH_BOUND_MORE[1]) / tree.steps.time
        evidence.append(Evidence("activities", work.told))
        gaps = gaps | (tree.idle(FOR_HOST) & ~tree.compiling)
    of_optimizer = float(tree.gaps[gaps & optimizers_work(tree.profile)].sum()) / late * closed
    if of_optimizer >= COOL:
        evidence.append(Evidence("activities", _OPTIMIZER.format(
            percent(of_optimizer / closed), 1 / (1 - of_optimizer)
        )))  # fmt: skip
    saving = Saving(min(sure, likely), likely, max(most, likely))
    in_jax = float(tree.gaps[gaps & tree.jax].sum()) > late / 2
    if not in_jax and gain_of(saving).mid > LAUNCH_BOUND_COMPILED[1]:
        evidence.append(Evidence("activities", _COMPILED))
    yield Draft(
        "suggestion", f"GPU idle: kernels{_named(tree, around)} are launched too late",
        tree.place(where), tuple(evidence), _LATE_IN_JAX if in_jax else _LATE, "", saving,
        gaps=nodes_of(gaps), fixes=() if in_jax else _fixes(tree, gaps, where),
    )  # fmt: skip


class _Work:
    """Work of the devices in steps, and how much of it is there once for several steps; ns."""

    def __init__(self, tree: Contexts) -> None:
        floors = Floors(tree)
        shortfalls = Shortfalls(tree, floors).by_cause
        empty = [shortfalls[each] for each in _EMPTY if each in shortfalls]
        launching = [node for node, limit in floors.limits.items() if limit == "launch"]
        self._tree = tree
        self._busy = float(tree.time.sum())
        self._empty = float(sum(each.sum() for each in empty) + floors.floor[launching].sum())
        late = tree.idle(LATE) & ~tree.compiling
        # A launch in time leaves the gap that dependent work has.
        self._dependent = float(tree.gaps[tree.idle(DEPENDENT) | late].sum()) - tree.late

    def left(self, more: float) -> float:
        """Return what is left of the recorded steps where launches have `more` times the work."""
        once = self._empty + self._dependent
        device = self._busy + self._dependent - once * (1 - 1 / more)
        time = self._tree.steps.time
        return min(time, max(time / more, device))

    @cached_property
    def gain(self) -> float:
        """The likely gain of a step that is launched as one graph, 1 or more."""
        usual, greatest = LAUNCH_BOUND_MORE
        gain = max(self._tree.unrecorded_time / self._replayed, 1.0)
        return min(math.sqrt(usual * gain) if gain > usual else gain, greatest)

    @cached_property
    def _replayed(self) -> float:
        """Time of all steps as graphs: that of the kernels, less where several streams overlap."""
        busiest = _busiest(self._tree)
        return math.sqrt(self._busy * min(busiest or self._busy, self._busy))

    @property
    def told(self) -> str:
        """Return the devices' part of the time, and what the likely gain assumes."""
        time = self._tree.steps.time
        overlap = ", as far as those of several streams do not overlap"
        return (
            f"devices work for {percent(self._busy / time)} of the time in steps,"
            f" {percent(self._empty / time)} in launches that are short or do not fill them;"
            " a step that is launched at once likely takes as long as its kernels"
            f"{overlap if self._replayed < self._busy * (1 - COOL) else ''}"
        )


def _busiest(tree: Contexts) -> float:
    """Time of the busiest stream in steps, ns, summed over devices; 0 where streams are unknown."""
    totals = tree.profile.tables.track_totals
    sums = totals.sums
    held = tree.time[sums.node] > 0
    by_track = np.bincount(sums.track[held], sums.time[held], len(totals.tracks))
    devices = dict[int, float]()
    for track, time in zip(totals.tracks, by_track.tolist(), strict=True):
        if track.kind == "stream":
            devices[track.device] = max(devices.get(track.device, 0.0), time)
    return sum(devices.values())


def _fixes(tree: Contexts, gaps: Mask, where: int) -> tuple[Fix, ...]:
    """Return what likely closes most of these gaps first; a fused optimizer closes only its own."""
    compiled = compiled_at(tree.line(where))
    of_optimizer = float(tree.gaps[gaps & optimizers_work(tree.profile)].sum())
    share = of_optimizer / float(tree.gaps[gaps].sum())
    if share < LAUNCH_BOUND_OPTIMIZER[0]:
        return compiled
    if share < LAUNCH_BOUND_OPTIMIZER[1]:
        return (*compiled, OptimizerForm())
    return (OptimizerForm(), *compiled)


def _around(tree: Contexts, gaps: Mask) -> int | None:
    """Return the innermost scope, or line of the user's, around most of these gaps, if any is; none
    where that is a call of the whole program."""
    inside = inclusive(tree.profile, np.where(gaps, tree.gaps, 0.0))
    around = (tree.users | tree.kind("scope")) & (
        inside >= LAUNCH_BOUND_MOST * tree.gaps[gaps].sum()
    )
    # Nodes around more than half are around each other.
    ids = np.flatnonzero(around)
    if len(ids) == 1 and tree.profile.parents[ids[0]] < 0 and _calls(tree, int(ids[0])):
        return None
    return int(ids[tree.profile.depths[ids].argmax()]) if len(ids) else None


def _calls(tree: Contexts, node: int) -> bool:
    """Whether a frame calls another function of the user's in the same file, at several lines."""
    place, lines = tree.profile.locations[node], set[int]()
    for child in tree.profile.children(node):
        inner = tree.profile.locations[child]
        if place is not None and inner is not None and tree.users[child]:
            lines |= {inner.line} if inner.file == place.file else set()
    return len(lines) > 1


def _longest(tree: Contexts, gaps: Mask) -> int:
    """Return the line with most of these gaps, else the longest gap."""
    inside = gaps & (tree.lines >= 0)
    if inside.any():
        return int(tree.summed(tree.gaps, tree.lines, inside).argmax())
    return int(np.where(gaps, tree.gaps, -1.0).argmax())


def _named(tree: Contexts, node: int | None) -> str:
    if node is None:
        return ""
    if tree.profile.kinds[node] == "scope":
        return f" in the scope {tree.profile.names[node]}"
    return f" below {tree.told(node)}"


def _lines(tree: Contexts, gaps: Mask) -> str:
    """The lines with most of these gaps, where no single one has them."""
    idle = tree.summed(tree.gaps, tree.lines, gaps)
    sums = dict[str, float]()
    for node in np.flatnonzero(idle).tolist():
        line = tree.line(node)
        if line is not None:
            sums[line.short] = sums.get(line.short, 0.0) + float(idle[node])
    most = sorted(sums, key=lambda each: -sums[each])[:MOST_OF_A_KIND]
    whole = float(tree.gaps[gaps].sum())
    if len(most) < 2 or sums[most[0]] >= LAUNCH_BOUND_MOST * whole:
        return ""
    return "most of them below " + ", ".join(
        f"{name} ({percent(sums[name] / whole)})" for name in most
    )


def _a_launch(tree: Contexts, where: int) -> str:
    """The host's time a launch below a node, waiting and compiling apart, beside the mean time of
    its kernels."""
    inside = tree.below(tree.of([where])) & ~tree.compiling
    kernels = inside & tree.kind("kernel")
    count, launch = float(tree.count[kernels].sum()), tree.host_a_launch(inside)
    if not launch or not count:
        return ""
    mean = float(tree.time[kernels].sum()) / count
    return f"the host takes {duration(launch)} per launch, a kernel {duration(mean)}"


def _data(tree: Contexts, seen: Mask, copied: Mask, loading: float) -> Iterator[Draft]:
    """Yield what waiting for data costs: in gaps in which the host was seen in a loader (`seen`),
    and in those before copies of its data (`copied`), as far as it was `loading`, ns."""
    waited = float(tree.gaps[seen].sum())
    before = float(tree.gaps[copied].sum()) if waited < loading else 0.0
    share = tree.share(min(waited + before, max(waited, loading)))
    if share < COOL:
        return
    gaps = seen | copied if before else seen
    at = seen if seen.any() else tree.loaders & tree.steps.inside
    most = int(np.flatnonzero(at)[np.argmax((tree.gaps + tree.own("cpu_time"))[at])])
    text = f"{percent(share)} of {tree.whose} is lost in gaps in which the host was in the data"
    evidence = [Evidence("activities", f"{text} loader")]
    if before:
        told = f"the loader takes {percent(tree.share(loading))} of that time on the host, and most"
        evidence.append(Evidence("activities", f"{told} gaps end with a copy of its data"))
    low, workers = LAUNCH_BOUND_WORKERS
    line = tree.line(most)
    where = line.short if line else tree.told(most)
    likely = 1 - max(1 - share, share / workers)
    # Launches of other work take less time without a recording, so that waiting is more of it.
    longest = min(share * tree.steps.time / tree.unrecorded_time, LONGEST_SAVING)
    yield Draft(
        "suggestion", f"GPU idle: no data from the data loader at {where}",
        tree.place(most), tuple(evidence), _DATA, "",
        Saving(min(low * share, likely), likely, max(longest, likely)), gaps=nodes_of(gaps),
        fixes=(LoaderWorkers(), PINNED_MEMORY),
    )  # fmt: skip


def _host(tree: Contexts, gaps: Mask) -> Iterator[Draft]:
    """Symptoms: that a line runs meanwhile does not say why it takes so long."""
    lines = dict[tuple[str, int] | int, list[int]]()
    for node in np.flatnonzero(gaps).tolist():
        line = tree.line(node)
        lines.setdefault((line.file, line.line) if line else node, []).append(node)
    sums = sorted(
        ((float(tree.gaps[nodes].sum()), nodes) for nodes in lines.values()), reverse=True
    )
    for idle, nodes in sums[:MOST_OF_A_KIND]:
        if tree.share(idle) >= COOL:
            text = f"{percent(tree.share(idle))} of {tree.whose} is lost in long gaps at this line"
            title = f"GPU idle: waiting for the host at {tree.told(nodes[0])}"
            yield Draft("symptom", title, tree.place(nodes[0]), (Evidence("activities", text),),
                        _HOST)  # fmt: skip


RULE = ProgramRule("launch-bound", find)
