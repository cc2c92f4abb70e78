"""How fast a program becomes by several changes at once.

In: findings with the kernels and gaps whose time they take.  Out: one gain with its range, of the
time that the program likely takes without a recording.

What two changes want goes once. Of a kernel that several are about, the largest of their shares
goes: that they do not help against the same is not known. A gap is closed once, and gaps before
late launches are as long as they likely are without a recording.

And the host stays what it is. Where launches come late, a stretch lasts as long as the host's work
in it, h, or the devices', d (slack), whichever is longer. Gaps close there as the host's work
becomes less, so a change that closes them takes as much from h; one that makes kernels faster takes
from d alone. So after all changes such stretches still take max(d, h), with what is left of both.

The range is that of the changes: at least what their least savings bring, at most all of their
highest, with the gaps of the recording and without the host's bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.contexts import LATE, ONLY_COPIES, Column, Contexts
from tileprof.analyzer.findings import Finding, Gain
from tileprof.analyzer.numbers.shared import LONGEST_SAVING


@dataclass(frozen=True, eq=False)
class Claim:
    """A finding with the kernels whose time it takes away."""

    finding: Finding
    nodes: tuple[int, ...]
    """Kernels and copies in the tree; none where it is about gaps between kernels."""
    gaps: tuple[int, ...] = ()
    """Gaps in the tree; any, where none are told."""
    of_gaps: float = 0.0
    """Share of the devices' time in steps, 0 to 1, that goes of gaps; where there are no kernels,
    all that goes is of gaps."""
    of_work: float | None = None
    """Share of the devices' time in steps, 0 to 1, that goes of the kernels' time; None: all that
    the program gains and is not of gaps."""
    exposed: float = 1.0
    """Part of that time by which the program becomes shorter, 0 to 1."""
    launches_go: bool = False
    """Whether the launches of its kernels go too, and the host's time for them."""

    def wanted(self, whole: float) -> tuple[float, float]:
        """Return what it takes of kernels and of gaps, likely, of a program of that time, ns."""
        gain = self.finding.program_gain
        saved = whole * (1 - 1 / gain.mid) if gain else 0.0
        waits = min(whole * self.of_gaps, saved) if self.nodes else saved
        return (saved - waits if self.of_work is None else whole * self.of_work), waits


def together(tree: Contexts, claims: Sequence[Claim]) -> Gain:
    """Return what all of these changes bring; 1 without any."""
    told = [(each, gain) for each in claims if (gain := each.finding.program_gain) is not None]
    if not told:
        return Gain(1, 1, 1)
    whole = tree.unrecorded_time
    low, mid = (
        _time(tree, [(each, _part(gain, at)) for each, gain in told]) for at in ("low", "mid")
    )
    most = _Changed(tree, unrecorded=1.0)
    for each, gain in told:
        most.take(each, _part(gain, "high"))
    # A change alone brings what its finding says.
    singles = [max(getattr(gain, at) for _, gain in told) for at in ("low", "mid", "high")]
    likely = max(_times(whole, mid), singles[1])
    least = min(max(_times(whole, low), singles[0]), likely)
    return Gain(least, likely, max(_times(tree.steps.time, most.left), singles[2], likely))


def _part(gain: Gain, at: str) -> float:
    """What goes at an end of the range, as a multiple of what likely goes."""
    likely = 1 - 1 / gain.mid
    return float((1 - 1 / getattr(gain, at)) / likely) if likely else 0.0


def _times(before: float, after: float) -> float:
    return max(1.0, before / max(after, (1 - LONGEST_SAVING) * before)) if before else 1.0


def _time(tree: Contexts, changes: Iterable[tuple[Claim, float]]) -> float:
    """The program's time after changes, each with a multiple of its likely saving, ns."""
    changed = _Changed(tree, tree.unrecorded)
    for each, part in changes:
        changed.take(each, part)
    return max(changed.left, changed.bound)


class _Changed:
    """A program some of whose time has gone, ns; with that part of the gaps before late launches
    that `unrecorded` says, 0 to 1."""

    def __init__(self, tree: Contexts, unrecorded: float) -> None:
        self._tree = tree
        self._is_late = tree.idle(LATE) & ~tree.compiling
        late = unrecorded * np.maximum(tree.gaps - tree.count * tree.least_gap, 0)
        others = np.where(tree.idle(ONLY_COPIES), 0.0, tree.gaps)  # those are in the copies' time
        self._gaps: Column = np.where(self._is_late, late, others)
        self._whole = tree.steps.time - (1 - unrecorded) * tree.late
        self._closed = [0.0, 0.0]
        """Time of gaps that has gone: of late ones, of others."""
        self._launches = 0.0
        """Slack that has gone with its launches."""
        self._gone: Column = np.zeros(len(tree.profile))
        """By kernel, the share of its time that has gone, 0 to 1."""
        self._counts: Column = np.zeros(len(tree.profile))
        """By kernel, the share of its time by which the program is shorter."""

    def take(self, claim: Claim, part: float) -> None:
        """Take a change's saving, as a multiple of what likely goes."""
        work, waits = claim.wanted(self._tree.unrecorded_time)
        self._close(list(claim.gaps) or np.flatnonzero(self._gaps > 0).tolist(), part * waits)
        nodes = list(claim.nodes)
        held = float(self._tree.time[nodes].sum())
        if held <= 0:
            return
        share = min(part * work / held, 1.0)
        if claim.launches_go:
            more = np.maximum(share - self._gone[nodes], 0.0)
            self._launches += float((more * self._tree.slack_by_node[nodes]).sum())
        self._gone[nodes] = np.maximum(self._gone[nodes], share)
        self._counts[nodes] = np.maximum(self._counts[nodes], share * claim.exposed)

    def _close(self, gaps: list[int], wanted: float) -> None:
        held = float(self._gaps[gaps].sum())
        if held <= 0:
            return
        goes = min(wanted / held, 1.0) * self._gaps[gaps]
        late = self._is_late[gaps]
        self._gaps[gaps] -= goes
        self._closed[0] += float(goes[late].sum())
        self._closed[1] += float(goes[~late].sum())

    @property
    def left(self) -> float:
        """Time that is left where of each saving the exposed part counts."""
        return self._whole - float((self._counts * self._tree.time).sum()) - sum(self._closed)

    @property
    def bound(self) -> float:
        """Time in which the host, where it is the limit, and devices do what is left of their work.

        Only around late launches is the host known to be the limit.
        """
        tree, slack = self._tree, self._tree.slack_by_node
        late, others = self._closed
        elsewhere = tree.steps.time - tree.late - tree.slack - others
        elsewhere -= float((self._gone * (tree.time - slack)).sum())
        device = tree.slack - float((self._gone * slack).sum())
        return elsewhere + max(device, tree.host_of_slack - late - self._launches)
