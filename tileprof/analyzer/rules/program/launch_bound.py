"""Devices that have nothing to do, by what they wait for: the launch, the data, the host.

Static: none. Dynamic: gaps by their reason, the host's time a launch beside that of a kernel. Where
launches come late the host is the limit; a graph launches without it, and leaves the gap that was
measured between two kernels of the device, or that of dependent work in the profile. All of the
gaps goes at most: time / busy time. Where the host itself waits for longer than the device does, it
is ahead of it: then its waits make the gaps, and `transfers` tells of them, or `small-kernels`
where it waits as the device's queue of launches is full.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import FOR_DATA, FOR_HOST, LATE, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.numbers import COOL, LAUNCH_BOUND_SURE, MOST_OF_A_KIND

_LATE = (
    "The host is the limit: launch fewer and larger kernels (torch.compile, larger batches, fused"
    " or foreach optimizers), or all of a step at once as a CUDA graph (torch.compile with"
    ' mode="reduce-overhead", torch.cuda.graph).'
)
_DATA = (
    "The next batch is not ready in time: use more workers (num_workers), pin_memory and"
    " prefetch_factor of the DataLoader, or less work for each element."
)
_HOST = "Move this work of the host to before the step, to another thread, or to the device."


def find(program: Program) -> Iterator[Draft]:
    """Where devices wait."""
    tree = Contexts(program)
    if not program.device_time or not tree.gaps.any():
        return
    counted = ~tree.compiling
    yield from _launches(tree, tree.idle(LATE) & counted)
    if tree.steps.repeats:
        yield from _data(tree, tree.idle(FOR_DATA) & counted)
        yield from _host(tree, tree.idle(FOR_HOST) & counted)


def _launches(tree: Contexts, gaps: Mask) -> Iterator[Draft]:
    late = float(tree.gaps[gaps].sum())
    if tree.share(late) < COOL or _held_up(tree, tree.steps.inside) > late:
        return
    where = _most(tree, gaps)
    evidence = [
        Evidence(
            "activities",
            f"{percent(tree.share(late))} of {tree.whose} is lost in"
            f" {tree.count[gaps].sum():,.0f} gaps before late launches",
        )
    ]
    if told := _a_launch(tree, where):
        evidence.append(Evidence("activities", told))
    evidence.append(Evidence("activities", tree.recording))
    mid = tree.share(tree.avoidable(gaps))
    yield Draft(
        "suggestion", f"GPU idle: kernels in {_named(tree, where)} are launched too late",
        tree.place(where), tuple(evidence), _LATE, "",
        Saving(LAUNCH_BOUND_SURE * mid, mid, tree.share(late)),
    )  # fmt: skip


def _held_up(tree: Contexts, nodes: Mask) -> float:
    """What the host waits there, for devices or as their queues of launches are full, ns."""
    return float((tree.own("sync_time") + tree.standing)[nodes].sum())


def _most(tree: Contexts, gaps: Mask) -> int:
    """The scope with most of these gaps, else the line, else the longest gap."""
    for at in (tree.scopes, tree.lines):
        inside = gaps & (at >= 0)
        if inside.any():
            return int(tree.summed(tree.gaps, at, inside).argmax())
    return int(np.where(gaps, tree.gaps, -1.0).argmax())


def _named(tree: Contexts, node: int) -> str:
    kind, name = tree.profile.kinds[node], tree.profile.names[node]
    return f"the {kind} {name}" if kind == "scope" else f"{name}, {tree.told(node)}"


def _a_launch(tree: Contexts, where: int) -> str:
    """The host's time a launch below a node, waiting apart, beside the mean time of its kernels."""
    only = np.zeros(len(tree.profile), bool)
    only[where] = True
    inside = tree.below(only)
    kernels = inside & tree.kind("kernel")
    calls = np.zeros_like(only)
    calls[tree.parents[kernels & (tree.parents >= 0)]] = True
    calls &= tree.kind("api")
    launches = float(tree.count[calls].sum())
    worked = float(tree.own("cpu_time")[inside].sum()) - _held_up(tree, inside)
    count = float(tree.count[kernels].sum())
    if not launches or not count or worked <= 0:
        return ""
    mean = float(tree.time[kernels].sum()) / count
    return f"the host takes {duration(worked / launches)} per launch, a kernel {duration(mean)}"


def _data(tree: Contexts, gaps: Mask) -> Iterator[Draft]:
    share = tree.share(float(tree.gaps[gaps].sum()))
    if share < COOL:
        return
    most = int(np.where(gaps, tree.gaps, -1.0).argmax())
    text = (
        f"{percent(share)} of {tree.whose} is lost in gaps in which the host was in the data loader"
    )
    yield Draft(
        "suggestion",
        f"GPU idle: no data from the data loader at {tree.told(most)}",
        tree.place(most),
        (Evidence("activities", text),), _DATA, "", Saving(LAUNCH_BOUND_SURE * share, share, share),
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
