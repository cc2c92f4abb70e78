"""Waits of the host for a device, and copies through memory that is not pinned.

Static: none. Dynamic: how long the host waited where, gaps of devices that end at a launch which
came late after such a wait or copy; bytes and time of copies. A wait costs the device what passes
until the host is ahead of it again: those gaps, D, and of further late launches, L, none to all:
likely 1 - L / W of them, W being what the host waits, as it is the further ahead without its waits
the longer these are. No more than W goes, as the host's own work stays: min(D + L, W). But where a
result is read, what the host works for the read goes too, as far as launches are late. Reads that
each cost too little to be told are told together where all of them cost enough. Copies from
pinned memory hold no host up and can run beside kernels: at most all goes in which nothing but
copies ran, of a step without late launches (`Contexts.saving`), and at least they run as fast as
pinned ones were measured to, or as a slow link lets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import (
    AFTER_COPY,
    AFTER_WAIT,
    FOR_DATA,
    LATE,
    ONLY_COPIES,
    Contexts,
    Mask,
)
from tileprof.analyzer.copies import PAGEABLE, PINNED, READS, SIZES, copies, held_up, rate
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, duration, listed, percent
from tileprof.analyzer.fixes import PINNED_MEMORY
from tileprof.analyzer.numbers.shared import COLD, MOST_OF_A_KIND
from tileprof.analyzer.program.masks import inclusive, nodes_of
from tileprof.analyzer.rules.program.numbers import TRANSFERS_LARGE, TRANSFERS_SLOW_LINK

_READ = (
    "Do not read a value back from the device in each step: keep it there (sum losses on the"
    " device, read them every hundredth step), or copy it with non_blocking=True and read it one"
    " step later."
)
_SIZE = (
    "The size of this result depends on data, so the host has to wait. Use a mask, torch.where, or"
    " a result of fixed size."
)
_WAIT = (
    "Do not wait for the device in each step: remove torch.cuda.synchronize, synchronise streams"
    " by events, and make copies to the host non_blocking."
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
    called: float = 0.0
    """What the host works for it besides, where it reads a result, ns."""
    times: float = 0.0
    reads: set[int] = field(default_factory=set)
    """Operations by which it reads results of the device."""
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
    # Which wait a gap comes from is not told: they are dealt out by how often there was each.
    dealt = [
        _Cost(tree, each, *(time * each.times / every for time in (direct, late, waited)))
        for each in sorted(waits, key=lambda wait: (-wait.times, -wait.waited))
    ]
    reads = [each for each in dealt if each.wait.reads]
    told = [each for each in dealt[:MOST_OF_A_KIND] if each.most >= COLD]
    if not told and len(reads) > 1 and sum(each.most for each in reads) >= COLD:
        yield _of_reads(tree, reads)
    else:
        yield from (each.draft() for each in dealt[:MOST_OF_A_KIND])


def _gaps(tree: Contexts) -> tuple[float, float]:
    """Those that follow a wait, and all other ones before late launches, ns; what stays, apart.

    A gap that a copy of the host's data ends is one, too: the host came late with it. That a launch
    ends it while the host had been held up in a copy is told with these copies, if there are any.
    Where the host loads data itself, it begins with that the later the longer it waits before.
    """
    direct, late = tree.idle(AFTER_WAIT, AFTER_COPY), tree.idle(LATE) & ~tree.compiling
    direct &= ~tree.compiling
    if copies(tree, PAGEABLE).any():
        direct &= ~held_up(tree)
    if (tree.loaders & tree.steps.inside).any():
        direct |= tree.idle(FOR_DATA) & ~tree.compiling
    return tree.avoidable(direct), tree.avoidable(late)


def _by_function(tree: Contexts) -> Iterator[_Wait]:
    """Waits that come in each step, those of one function that one change takes out together.

    Without those that copies of pageable memory make, where these are told.
    """
    found, most = dict[object, _Wait](), dict[object, float]()
    called, waiting = (inclusive(tree.profile, tree.own(m)) for m in ("cpu_time", "sync_time"))
    for node in _waiting(tree):
        line, times = tree.line(node), float(tree.count[node])
        why, _ = _reason(tree, node)
        key = (line.file, line.function, why) if line else (tree.profile.names[node], why)
        each = found.setdefault(key, _Wait(node))
        each.waited += float(tree.own("sync_time")[node])
        around = _read(tree, node)
        if around is not None and around not in each.reads:
            each.called += max(0.0, float(called[around]) - float(waiting[around]))
            each.reads.add(around)
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


@dataclass(eq=False)
class _Cost:
    """What a wait costs, ns: gaps after waits (`direct`) and before other late launches (`late`),
    as far as they are dealt to it, and what the host waited."""

    tree: Contexts
    wait: _Wait
    direct: float
    late: float
    waited: float

    def __post_init__(self) -> None:
        every = self.late
        self.direct = min(self.direct, self.waited)
        self.late = min(self.late, self.waited - self.direct)
        self.called = min(self.wait.called, every - self.late)
        """Late gaps that go with what the host works for reads."""

    @property
    def most(self) -> float:
        """Share of the devices' time that goes at most, 0 to 1."""
        return self.tree.share(self.direct + self.late + self.called)

    @property
    def likely(self) -> float:
        """Time that likely goes, ns: of late gaps the less, the less the host is ahead."""
        ahead = max(0.0, 1 - self.late / self.waited) if self.waited else 0.0
        return self.direct + self.late * ahead + self.tree.unrecorded * self.called

    def draft(self) -> Draft:
        """Return what is said of it alone."""
        tree, wait = self.tree, self.wait
        why, advice = _reason(tree, wait.node)
        lines = sorted(wait.lines)
        times = f"{wait.times:,.0f} times, {duration(wait.waited / wait.times)} each"
        times += f", at the lines {_and(lines)}" if len(lines) > 1 else ""
        waits = f"the host waits here {times} ({_by(tree, wait.node)})"
        evidence = [Evidence("activities", waits), Evidence("activities", self._gaps())]
        place, told = tree.place(wait.node), tree.told(wait.node)
        if self.most < COLD:
            title = f"{why} at {told} waits for the device, which still has enough work"
            advice = "Leave it: the device has other work during the wait."
            return Draft("ignore", title, place, tuple(evidence), advice, confidence="medium")
        evidence.append(Evidence("activities", tree.recording))
        title = f"{why} at {told} leaves the device without work"
        late = bool(self.late or self.called)
        mid, high = self.likely, self.direct + self.late + self.called
        saving = tree.saving(self.direct / 2, mid, high, mid, high)
        return Draft("suggestion", title, place, tuple(evidence), advice, "", saving,
                     gaps=_closed(tree, late))  # fmt: skip

    def _gaps(self) -> str:
        tree = self.tree
        share = percent(tree.share(self.direct))
        text = f"{share} of {tree.whose} is lost in gaps after waits and copies"
        if self.late:
            ahead = (
                "although the host is ahead"
                if self.late < self.waited / 2
                else "because the host is hardly ahead"
            )
            text += f", {percent(tree.share(self.late))} in other gaps, before late launches,"
            text += f" {ahead}"
        if self.called:
            text += f"; the host works for {percent(tree.share(self.called))} of it to read"
        return text


def _of_reads(tree: Contexts, reads: list[_Cost]) -> Draft:
    """Reads of results none of which costs enough alone."""
    most = max(reads, key=lambda each: each.most)
    lines = dict.fromkeys(tree.told(each.wait.node).partition(",")[0] for each in reads)
    times = sum(each.wait.times for each in reads)
    waited = sum(each.wait.waited for each in reads)
    direct = sum(each.direct for each in reads)
    high = sum(each.direct + each.late + each.called for each in reads)
    likely = sum(each.likely for each in reads)
    evidence = (
        Evidence(
            "activities",
            f"the host reads results {times:,.0f} times, and waits {duration(waited / times)} each",
        ),
        Evidence(
            "activities",
            f"{percent(tree.share(high))} of {tree.whose} is lost in gaps after these waits and"
            " before late launches",
        ),
        Evidence("activities", tree.recording),
    )
    return Draft(
        "suggestion", f"Reads of results at {listed(list(lines))} together leave the device"
        " without work", tree.place(most.wait.node), evidence, _READ, "",
        tree.saving(direct / 2, likely, high, likely, high), gaps=_closed(tree, True),
    )  # fmt: skip


def _closed(tree: Contexts, late: bool) -> tuple[int, ...]:
    """Gaps that go where the host does not wait, those before `late` launches too."""
    reasons = (AFTER_WAIT, AFTER_COPY, FOR_DATA, *([LATE] if late else []))
    return nodes_of(tree.idle(*reasons) & ~tree.compiling)


def _read(tree: Contexts, node: int) -> int | None:
    """The outermost operation around a wait that reads a result; None where there is none."""
    found, reads = None, False
    for each in tree.profile.path(node)[::-1]:
        if tree.profile.kinds[each] == "frame":
            break
        if tree.profile.kinds[each] == "op":
            fetches = tree.profile.names[each] in READS or each in tree.fetching
            found, reads = int(each), reads or fetches
    return found if reads else None


def _and(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _reason(tree: Contexts, node: int) -> tuple[str, str]:
    """What waits, and what to do about it."""
    op = tree.op(node)
    if op in READS:
        return ".item()", _READ
    if op in SIZES:
        return op, _SIZE
    if _read(tree, node) is not None:
        return "a copy to the host", _READ
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
        fixes=(PINNED_MEMORY,) if direction == "HtoD" else (),
    )  # fmt: skip


RULE = ProgramRule("transfers", find)
