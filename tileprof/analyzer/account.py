"""Where all of the devices' time goes: floors, named causes, what nothing explains, and idle time.

In: a program, and findings with the kernels whose time each takes away.  Out: `Account`. Its parts
add up to the devices' time in steps, each nanosecond once.

A kernel's time is its floor and what is beyond. Findings take their likely savings in order of use,
each from the kernels that it is about: first of what is beyond the floor, then of the floor itself,
where work goes away (fusion) or becomes cheaper (another precision); gaps that a finding closes
come out of the idle time. What another finding has taken is not there to be taken again. Of what
is left beyond floors, a part has a typed cause without a suggestion (`shortfalls`), such as grids
that do not fill the device. The rest is unexplained.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.contexts import ONLY_COPIES, Column, Contexts, Mask
from tileprof.analyzer.findings import Gain
from tileprof.analyzer.floors import Floors, Limit
from tileprof.analyzer.numbers.reports import ACCOUNT_FIRST
from tileprof.analyzer.shortfalls import Shortfall, Shortfalls
from tileprof.analyzer.together import Claim, together

_COMMUNICATION = re.compile(r"nccl", re.IGNORECASE)


@dataclass(frozen=True)
class Named:
    """Time with a known cause."""

    rule: str
    title: str
    time: float
    """Time of devices that likely goes, as far as no finding before takes it, ns."""
    idle: float
    """Idle part of that time, ns."""
    gained: float
    """Part of that time by which the program becomes shorter, ns."""


@dataclass(frozen=True)
class KernelAccount:
    """The time of one kernel in steps, ns.

    `time` = `floor` + `named` + `unexplained` + the sum of `shortfalls`.
    """

    case: KernelCase
    time: float
    floor: float
    """Least time of the work that all suggestions leave; 0 where the work is not known."""
    limit: Limit
    """Limit of the node with the longest floor."""
    named: float
    """Time that suggestions take, of the work itself too."""
    unexplained: float
    shortfalls: Mapping[Shortfall, float]
    """Time beyond the floor by typed cause, of which no suggestion takes it away."""
    lacks_roofs: bool = False
    """Whether its work is known and only its device's roofs are missing."""

    @property
    def name(self) -> str:
        """The kernel's name, as in the tree."""
        return self.case.name


@dataclass(frozen=True)
class Account:
    """The time of all devices in a program's steps, ns.

    `time` = `floor` + `causes` + `shortfalls` + `unexplained` + `copies` + `communication` +
    `waiting`.
    """

    time: float
    """Time in which devices are busy, and idle."""
    busy: float
    unrecorded: float
    """The time, as it likely is without a recording."""
    floor: float
    causes: tuple[Named, ...]
    """Suggestions, the most useful first."""
    shortfalls: tuple[tuple[Shortfall, float], ...]
    """Time beyond floors that has a typed cause and no suggestion, the longest first."""
    unexplained: float
    unknown: float
    """Part of `unexplained`: that of kernels whose work, or whose device, is not known."""
    copies: float
    communication: float
    waiting: float
    """Idle time that no cause names."""
    idle: tuple[tuple[str, float], ...]
    """All idle time by reason, the longest first."""
    kernels: tuple[KernelAccount, ...]
    """Kernels that ran in steps, the longest first."""
    first: tuple[int, Gain] = (0, Gain(1, 1, 1))
    """How many changes are first, and how many times as fast the program is with all of them."""
    assumed: bool = False
    """Whether roofs of a device were not measured, and are those of others of its name."""

    @property
    def without_floor(self) -> tuple[KernelAccount, ...]:
        """Kernels whose least time is not known: their work or their device's roofs are missing."""
        return tuple(each for each in self.kernels if not each.limit and each.unexplained > 0)

    @property
    def explained(self) -> float:
        """Share of the busy time that is floor, copies, communication, or has a named cause."""
        return 1 - self.unexplained / self.busy if self.busy else 1.0

    @property
    def most(self) -> float:
        """How many times as fast the program could be at most: nothing but floors, copies and
        communication, all of it in a row; infinite where kernels without a floor take longer than
        that: the bound would come from what is not known."""
        least = self.floor + self.copies + self.communication
        return self.time / least if least and self.unknown <= least else float("inf")


def account(tree: Contexts, claims: Iterable[Claim]) -> Account | None:
    """Return where the time went; None where no device was timed."""
    time = tree.time
    if not time.any():
        return None
    kernels = tree.kind("kernel") & (time > 0)
    talks = kernels & tree.where(lambda symbol: bool(_COMMUNICATION.search(symbol.name)))
    works = kernels & ~talks
    floors = Floors(tree)
    copies, idle = tree.kind("memcpy", "memset"), _idle(tree)
    left = _Left(
        np.where(works, time - floors.floor, 0.0),
        np.where(works, floors.floor, 0.0),
        np.where(copies, time, 0.0),
        np.where(tree.idle(ONLY_COPIES), 0.0, tree.gaps),
    )
    taken = [(each, left.take(each, tree.unrecorded_time)) for each in claims]
    causes = tuple(cause for _, cause in taken)
    first = [each for each, cause in taken if cause.gained > 0][:ACCOUNT_FIRST]
    shortfalls = {
        cause: left.part(column) for cause, column in Shortfalls(tree, floors).by_cause.items()
    }
    unknown = [node for node, limit in floors.limits.items() if not limit]
    return Account(
        time=tree.steps.time,
        unrecorded=tree.unrecorded_time,
        busy=float(time.sum()),
        floor=float(left.floor.sum()),
        causes=causes,
        shortfalls=tuple(
            sorted(
                ((each, float(part.sum())) for each, part in shortfalls.items()),
                key=lambda item: -item[1],
            )
        ),
        unexplained=float(left.beyond.sum()),
        unknown=float(left.beyond[unknown].sum()),
        copies=float(left.copies.sum()),
        communication=float(time[talks].sum()),
        waiting=float(left.idle.sum()),
        idle=idle,
        kernels=tuple(_by_kernel(tree, floors, left, works, shortfalls)),
        first=(len(first), together(tree, first)),
        assumed=floors.assumed,
    )


@dataclass(eq=False)
class _Left:
    """Time by node that no finding has taken yet, ns."""

    beyond: Column
    floor: Column
    copies: Column
    idle: Column

    def take(self, claim: Claim, whole: float) -> Named:
        """Take a finding's likely saving: from its kernels, and from what devices waited."""
        works, waits = claim.wanted(whole)
        taken, nodes = 0.0, list(claim.nodes)
        for column in (self.beyond, self.floor, self.copies):
            taken += _take(column, nodes, works - taken)
        idle = _take(self.idle, list(claim.gaps) or slice(None), waits)
        gained = taken * claim.exposed + idle
        return Named(claim.finding.rule, claim.finding.title, taken + idle, idle, gained)

    def part(self, most: Column) -> Column:
        """Take up to `most` of each node's time beyond its floor; returns what was there, ns."""
        part: Column = np.minimum(self.beyond, most)
        self.beyond -= part
        return part


def _take(column: Column, nodes: list[int] | slice, wanted: float) -> float:
    """Take time from nodes in proportion to what they have; returns how much there was, ns."""
    held = float(column[nodes].sum())
    part = min(wanted, held)
    if part <= 0:
        return 0.0
    column[nodes] *= 1 - part / held
    return part


def _idle(tree: Contexts) -> tuple[tuple[str, float], ...]:
    """Gaps by reason, without those in which copies run: these are in the copies' time."""
    profile, sums = tree.profile, Counter[str]()
    for node in np.flatnonzero((tree.gaps > 0) & ~tree.idle(ONLY_COPIES)).tolist():
        sums[profile.names[node]] += tree.gaps[node]
    return tuple((reason, float(time)) for reason, time in sums.most_common())


def _by_kernel(
    tree: Contexts,
    floors: Floors,
    left: _Left,
    works: Mask,
    shortfalls: Mapping[Shortfall, Column],
) -> Iterable[KernelAccount]:
    for case in sorted(tree.program.kernels, key=lambda case: -tree.in_steps(case)):
        nodes = [node for node in case.nodes if works[node]]
        time = float(tree.time[nodes].sum())
        if not time:
            continue
        longest = max(nodes, key=lambda node: float(floors.floor[node]))
        floor, unexplained = float(left.floor[nodes].sum()), float(left.beyond[nodes].sum())
        limit = floors.limits.get(longest, "")
        parts = {
            cause: part
            for cause, column in shortfalls.items()
            if (part := float(column[nodes].sum())) > 0
        }
        named = time - floor - unexplained - sum(parts.values())
        lacks = floors.lacks_roofs(case)
        yield KernelAccount(case, time, floor, limit, named, unexplained, parts, lacks)
