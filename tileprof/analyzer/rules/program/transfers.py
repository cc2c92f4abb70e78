"""The host waits for a device, or copies by way of memory that is not pinned.

Static: none. Dynamic: how long the host waited where, gaps of devices that end at a launch which
came late after such a wait or copy; bytes and time of copies. A wait costs the device what passes
until the host is ahead of it again: those gaps, D, and of further late launches, L, none to all:
likely 1 - L / W of them, W being what the host waits, as it is the further ahead without its waits
the longer these are. No more than W goes, as the host's own work stays: min(D + L, W). Copies from
pinned memory hold no host up and can run beside kernels: at most all goes in which nothing but
copies ran, of a step without late launches (`Contexts.saving`), and at least they run as fast as
pinned ones were measured to, or as a slow link lets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import AFTER_COPY, AFTER_WAIT, LATE, ONLY_COPIES, Contexts, Mask
from tileprof.analyzer.copies import PAGEABLE, PINNED, READS, SIZES, copies, held_up, rate
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.fixes import PinnedMemory
from tileprof.analyzer.numbers import COLD, MOST_OF_A_KIND
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.numbers import TRANSFERS_LARGE, TRANSFERS_SLOW_LINK

_READ = (
    "Do not read a number back from the device in each step: keep it there (sum losses on the"
    " device, read them every hundredth step), or copy it with non_blocking=True and read it one"
    " step later."
)
_SIZE = (
    "The size of this result depends on data, so the host has to wait. Use a mask, torch.where, or"
    " a result of fixed size."
)
_WAIT = (
    "Do not wait for the device in each step: take torch.cuda.synchronize out, order streams by"
    " events, and make copies to the host non_blocking."
)
_PIN = (
    "Copy from pinned memory without waiting: pin_memory=True of the DataLoader or .pin_memory(),"
    " and .to(device, non_blocking=True)."
)


@dataclass
class _Wait:
    """Waits of the host for one reason, in one function."""

    node: int
    """Where it waits most often."""
    waited: float = 0.0
    times: float = 0.0
    lines: set[int] = field(default_factory=set)


def find(program: Program) -> Iterator[Draft]:
    """Waits, then copies, that happen again and again."""
    tree = Contexts(program)
    if not program.device_time:
        return
    yield from _waits(tree)
    for direction in ("HtoD", "DtoH"):
        yield from _pageable(tree, direction)


def _waits(tree: Contexts) -> Iterator[Draft]:
    waits = list(_by_function(tree))
    every = sum(each.times for each in waits)
    if not every:
        return
    direct, late = _gaps(tree)
    waited = sum(each.waited for each in waits)
    for each in sorted(waits, key=lambda wait: (-wait.times, -wait.waited))[:MOST_OF_A_KIND]:
        # Which wait a gap comes from is not told: they are dealt out by how often there was each.
        yield from _of_wait(
            tree, each, *(time * each.times / every for time in (direct, late, waited))
        )


def _gaps(tree: Contexts) -> tuple[float, float]:
    """Those that follow a wait, and all other ones before late launches, ns; what stays, apart.

    A gap that a copy of the host's data ends is one, too: the host came late with it. That a launch
    ends it while the host had been held up in a copy is told with these copies, if there are any.
    """
    direct, late = tree.idle(AFTER_WAIT, AFTER_COPY), tree.idle(LATE) & ~tree.compiling
    direct &= ~tree.compiling
    if copies(tree, PAGEABLE).any():
        direct &= ~held_up(tree)
    return tree.avoidable(direct), tree.avoidable(late)


def _by_function(tree: Contexts) -> Iterator[_Wait]:
    """Waits that come in each step, those of one function that one change takes out together.

    Without those that copies of pageable memory make, where these are told.
    """
    found, most = dict[object, _Wait](), dict[object, float]()
    for node in _waiting(tree):
        line, times = tree.line(node), float(tree.count[node])
        why, _ = _reason(tree, node)
        key = (line.file, line.function, why) if line else (tree.profile.names[node], why)
        each = found.setdefault(key, _Wait(node))
        each.waited += float(tree.own("sync_time")[node])
        each.times += times
        each.lines |= {line.line} if line else set()
        if times > most.get(key, 0.0):
            each.node, most[key] = node, times
    for each in found.values():
        if tree.repeated(each.node, each.times):
            yield each


def _waiting(tree: Contexts) -> list[int]:
    unpinned = copies(tree, "HtoD", PAGEABLE)
    told = tree.share(float(tree.time[unpinned].sum())) >= COLD
    ops = {int(op) for op in tree.ops[unpinned] if op >= 0} if told else set[int]()
    waits = tree.kind("sync") & tree.steps.inside & ~tree.compiling
    return [node for node in np.flatnonzero(waits).tolist() if int(tree.ops[node]) not in ops]


def _of_wait(
    tree: Contexts, wait: _Wait, direct: float, late: float, waited: float
) -> Iterator[Draft]:
    why, advice = _reason(tree, wait.node)
    lines = sorted(wait.lines)
    times = f"{wait.times:,.0f} times, {duration(wait.waited / wait.times)} each"
    times += f", at the lines {_and(lines)}" if len(lines) > 1 else ""
    evidence = [Evidence("activities", f"the host waits here {times} ({_by(tree, wait.node)})")]
    place, told = tree.place(wait.node), tree.told(wait.node)
    direct = min(direct, waited)
    late = min(late, waited - direct)
    text = f"{percent(tree.share(direct))} of {tree.whose} is lost in gaps after waits and copies"
    if late:
        ahead = (
            "although the host is ahead"
            if late < waited / 2
            else "because the host is hardly ahead"
        )
        text += f", {percent(tree.share(late))} in other gaps, before late launches, {ahead}"
    evidence.append(Evidence("activities", text))
    if tree.share(direct + late) < COLD:
        title = f"{why} at {told} waits for the device, which has enough work meanwhile"
        advice = "Leave it: the device has work meanwhile."
        yield Draft("ignore", title, place, tuple(evidence), advice, confidence="medium")
        return
    evidence.append(Evidence("activities", tree.recording))
    likely = late * max(0.0, 1 - late / waited)
    title = f"{why} at {told} leaves the device without work"
    gaps = tree.idle(AFTER_WAIT, AFTER_COPY, *([LATE] if late else [])) & ~tree.compiling
    mid, high = direct + likely, direct + late
    saving = tree.saving(direct / 2, mid, high, mid, high)
    yield Draft("suggestion", title, place, tuple(evidence), advice, "", saving,
                gaps=nodes_of(gaps))  # fmt: skip


def _and(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _reason(tree: Contexts, node: int) -> tuple[str, str]:
    """What waits, and what to do about it."""
    op = tree.op(node)
    if op in READS:
        return ".item()", _READ
    if op in SIZES:
        return op, _SIZE
    return "a wait of the host", _WAIT


def _by(tree: Contexts, node: int) -> str:
    """The calls below the user's line: `aten::item → cuStreamSynchronize → stream`."""
    path = tree.profile.path(node)
    kinds, names = tree.profile.kinds, tree.profile.names
    return " → ".join(names[each] for each in path if kinds[each] in ("op", "api", "sync"))


def _pageable(tree: Contexts, direction: str) -> Iterator[Draft]:
    nodes = copies(tree, direction, PAGEABLE)
    if not nodes.any():
        return
    # What was alone on the device, and what followed, is dealt out over the copies.
    alone = float(tree.gaps[tree.idle(ONLY_COPIES)].sum())
    time, copied = (float(tree.time[mask].sum()) for mask in (nodes, tree.kind("memcpy")))
    exposed = min(time, alone * time / copied) if copied else 0.0
    every = float(tree.count[copies(tree, PAGEABLE)].sum())
    held = float(tree.gaps[held_up(tree)].sum()) * float(tree.count[nodes].sum()) / every
    if tree.share(time + held) < COLD:
        return
    yield from _of_copies(tree, nodes, direction, exposed, held)


def _of_copies(
    tree: Contexts, nodes: Mask, direction: str, exposed: float, held: float
) -> Iterator[Draft]:
    most = int(np.where(nodes, tree.time, -1.0).argmax())
    slow, fast = rate(tree, nodes), rate(tree, copies(tree, direction, PINNED, again=False))
    pace = f" at {slow:.3g} GB/s" if slow else ""
    alone = f"are alone on the device for {percent(tree.share(exposed))} of {tree.whose}"
    text = f"{tree.count[nodes].sum():,.0f} copies{pace} {alone}"
    text += f"; launches come late after them for {percent(tree.share(held))}" if held else ""
    evidence = [Evidence("activities", text)]
    place, where = tree.place(most), tree.told(most)
    if tree.share(exposed + held) < COLD:
        title = f"copies of pageable memory at {where} that other work covers"
        yield Draft("ignore", title, place, tuple(evidence), "Leave them: nothing waits for them.")
        return
    if fast:
        evidence.append(Evidence("activities", f"pinned copies run at {fast:.3g} GB/s here"))
    large = (
        slow
        and float((tree.own("bytes") / np.maximum(tree.count, 1))[nodes].max()) >= TRANSFERS_LARGE
    )
    low = exposed * max(0.0, 1 - slow / (fast or TRANSFERS_SLOW_LINK)) if large else 0.0
    high = exposed + held
    yield Draft(
        "suggestion", f"copies of pageable memory at {where}", place, tuple(evidence), _PIN, "",
        tree.saving(low, (low + high) / 2, high, held), confidence="low",
        nodes=nodes_of(nodes), gaps=nodes_of(held_up(tree)),
        fixes=(PinnedMemory(),) if direction == "HtoD" else (),
    )  # fmt: skip


RULE = ProgramRule("transfers", find)
