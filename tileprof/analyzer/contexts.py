"""Times of a program's tree, for rules about programs: of devices, of gaps, of a host that is late.

In: a program.  Out: columns, a value a node, and sums.  Own values are asked for, so what is nested
counts once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import duration, percent
from tileprof.analyzer.nodes import Nodes
from tileprof.analyzer.numbers.reports import (
    CONTEXTS_ALL,
    CONTEXTS_RECORDING_PART,
    CONTEXTS_SAMPLING_PART,
)
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.program import masks
from tileprof.analyzer.program.masks import Column, Ids, Mask
from tileprof.once import cached_property
from tileprof.profile import step_times
from tileprof.profile.node_names import (
    AFTER_COPY,
    AFTER_WAIT,
    DEPENDENT,
    FOR_DATA,
    FOR_HOST,
    LATE,
    ONLY_COPIES,
)

__all__ = [
    "AFTER_COPY", "AFTER_WAIT", "DEPENDENT", "FOR_DATA", "FOR_HOST", "LATE", "ONLY_COPIES",
    "Column", "Contexts", "Ids", "Mask",
]  # fmt: skip

_FULL = "command buffer full (overhead)"


class FewerLaunches(NamedTuple):
    """What becomes shorter where one launch does the work of several."""

    gaps: float
    """Time of gaps before late launches that closes, without what recording adds to it, ns."""
    exposed: float
    """Part of the kernels' saved time by which the program becomes shorter, 0 to 1."""


class Contexts(Nodes):
    """Questions to a program's tree about times, bytes and operations."""

    # -- values of nodes, and shares

    def own(self, metric: str) -> Column:
        """What nodes recorded themselves, 0 where nothing; the time of a kernel with its inside."""
        if metric == "time":
            return self.steps.work
        return masks.own(self.profile, metric)

    @cached_property
    def time(self) -> Column:
        """Own time on devices, in steps where they are known, ns."""
        return np.where(self.steps.inside, self.own("time"), 0.0)

    @cached_property
    def bytes(self) -> Column:
        """By kernel, the bytes that it has to move in steps; 0 where they are not known."""
        return self.program.work.bytes * self._part

    @cached_property
    def flops(self) -> Column:
        """By kernel, the operations that it computes in steps; 0 where they are not known."""
        return self.program.work.flops * self._part

    @cached_property
    def _part(self) -> Column:
        """By node, the part of its time that is of steps."""
        whole = self.own("time")
        return np.divide(self.time, whole, np.zeros(len(whole)), where=whole > 0)

    def part_in_steps(self, node: int) -> float:
        """Return the part of a node's time that is of steps, 0 to 1."""
        return float(self._part[node])

    @cached_property
    def count(self) -> Column:
        """Visits, or launches."""
        return self.own("count")

    def in_steps(self, case: KernelCase) -> float:
        """The time that devices worked on a kernel in steps, ns."""
        return float(self.time[list(case.nodes)].sum())

    def summed(self, column: Column, at: Ids, counted: Mask) -> Column:
        """By node, the sum of a column over those that count, of which `at` says whose they are."""
        held = counted & (at >= 0)
        sums = np.bincount(at[held], column[held], len(column))
        return sums.astype(np.float64)

    def share(self, nanoseconds: float) -> float:
        """Of the time of devices in steps, waiting included; 0 where no device was timed."""
        whole = self.steps.time
        return float(nanoseconds / whole) if whole else 0.0

    def saving(
        self, low: float, mid: float, high: float, gaps: float = 0.0, most_gaps: float = 0.0,
        unrecorded: float = 0.0,
    ) -> Saving:  # fmt: skip
        """Nanoseconds of the devices' time as a saving.

        `gaps` of what goes likely, and at most `most_gaps`, are before late launches. `unrecorded`
        is the most that goes of the time that the program takes without a recording.

        Shares are of the time that the program takes without a recording, which has fewer gaps; at
        most, of what it takes where no launch comes late.
        """
        whole, work = self.unrecorded_time, high - max(gaps, most_gaps)
        likely = min(mid / whole, LONGEST_SAVING) if whole else 0.0
        most = max(self.share(high), likely, work / max(self.steps.time - self.late, work, 1.0))
        most = max(most, unrecorded / whole if whole else 0.0)
        least, of_gaps = (min(each / whole, likely) if whole else 0.0 for each in (low, gaps))
        most = min(most, LONGEST_SAVING)
        return Saving(least, likely, most, gaps=of_gaps)

    @cached_property
    def whose(self) -> str:
        """What shares are of, as texts say it."""
        parts = self.steps.time < CONTEXTS_ALL * self.program.device_time
        return "the devices' time in steps" if parts else "the devices' time"

    @cached_property
    def worked(self) -> tuple[Column, float, str]:
        """By node the devices' time, or the host's where no device was timed; what shares are of,
        ns, and its name."""
        if self.time.any():
            return self.time, self.steps.time, self.whose
        host = self.program.host
        return host.column, host.whole, host.whose

    # -- gaps

    @cached_property
    def gaps(self) -> Column:
        """Own idle time of devices, of gaps that come in each step, ns."""
        return np.where(self.steps.again, self.steps.idle, 0.0)

    @cached_property
    def least_gap(self) -> float:
        """From a kernel to the next one that is launched in time, ns; 0 where not measured."""
        peaks = self.profile.tables.device_peaks
        if measured := [peak.value for peak in peaks if peak.name == "launch_gap"]:
            return min(measured)
        queued = self.where(lambda symbol: symbol.kind == "idle" and symbol.name == DEPENDENT)
        count = float(self.count[queued].sum())
        return float(self.own("idle_time")[queued].sum()) / count if count else 0.0

    def avoidable(self, gaps: Mask) -> float:
        """Of these gaps, ns, what goes if the launches that end them are in time."""
        return float(np.maximum(self.gaps - self.count * self.least_gap, 0)[gaps].sum())

    def gaps_before(self, kernels: Mask, *reasons: str) -> Column:
        """By kernel, the gaps that its launches ended: those of one call are dealt out by count."""
        above = self.parents.astype(np.int64)
        idle = self.summed(self.gaps, above, self.idle(*reasons))
        launches = np.maximum(self.summed(self.count, above, kernels), 1)
        held = kernels & (above >= 0)
        found = np.zeros(len(above))
        found[held] = idle[above[held]] * self.count[held] / launches[above[held]]
        return found

    def ended_by(self, kernels: Sequence[int], *reasons: str) -> tuple[int, ...]:
        """The gaps of these reasons that calls end which launch some of these kernels."""
        return masks.nodes_of(self.idle(*reasons) & self.beside(self.of(kernels)))

    @cached_property
    def standing(self) -> Column:
        """What the host stood in launches in steps, as a device's queue of them was full, ns."""
        full = self.where(lambda symbol: symbol.name == _FULL) & self.steps.inside
        return np.where(full & ~self.compiling, self.own("overhead_time"), 0.0)

    # -- late launches, and what recording adds

    def exposed(self, nodes: Sequence[int], saved: float = 0.0) -> float:
        """Part of the time of kernels and copies by which the program becomes shorter, 0 to 1,
        where `saved` of it goes, ns.

        The rest is slack: a late launch follows, which would not come earlier if they were shorter.
        Without a recording the host is faster, and where it needs about as long as the device, it
        is late in some places and ahead in others: of slack that part d² / (d² + h²) counts where
        host and device take h and d, half of what is saved gone.
        """
        held = list(nodes)
        time, slack = (float(each[held].sum()) for each in (self.steps.work, self._slack))
        if not time or not slack:
            return 1.0
        part = min(1.0, slack / time)
        device = max(self.slack - part * saved / 2, 0.0)
        host = self.host_of_slack
        return 1 - part * (1 - device**2 / (device**2 + host**2) if host else 0.0)

    def exposed_recorded(self, nodes: Sequence[int]) -> float:
        """Part of the time of kernels and copies that is no slack in the recording, 0 to 1."""
        held = list(nodes)
        time, slack = (float(each[held].sum()) for each in (self.steps.work, self._slack))
        return 1 - min(1.0, slack / time) if time else 1.0

    def fewer_launches(
        self, nodes: Sequence[int], late: float, left: float, saved: float
    ) -> FewerLaunches:
        """Return what it brings where `left` of the launches of kernels stay, 0 to 1, and `saved`
        of their time goes, ns. `late` are the gaps before those of them that come late, ns.

        Around late launches the host takes as long as gaps and slack together, the device as long
        as the slack. The host then does what is left of that work, and the longer one of both
        counts. What the host does besides launching stays, except in the gaps before these
        launches: not more goes than these gaps, or the host's mean time of as many launches.
        """
        held = list(nodes)
        time, slack = (float(each[held].sum()) for each in (self.time, self.slack_by_node))
        part = slack / time if time else 0.0
        host = (1 - self._recording_part) * (late + slack)
        device = slack - saved * part
        before = max(host, slack)
        a_launch = (1 - self._recording_part) * self._host_a_launch
        most = max(float(self.count[held].sum()) * a_launch, before - slack) * (1 - left)
        gone = before - max(left * host, device)
        gone = min(gone, most) if a_launch else gone
        gaps = max(0.0, gone - saved * part)
        return FewerLaunches(gaps, 1 - part + (gone - gaps) / saved if saved else 1.0)

    @cached_property
    def _host_a_launch(self) -> float:
        """The host's mean time of a launch in steps, ns; 0 where unknown."""
        return self.host_a_launch(self.steps.inside)

    @cached_property
    def _slack(self) -> Column:
        """Own time on devices that is slack in the recording, in all of the program, ns."""
        return self.own("slack_time")

    @cached_property
    def slack(self) -> float:
        """Time of devices in steps that is slack in the recording, ns."""
        return float(self.slack_by_node.sum())

    @cached_property
    def slack_by_node(self) -> Column:
        """The part of `time` that is slack in the recording, ns."""
        return np.minimum(self._slack * self._part, self.time)

    @cached_property
    def late(self) -> float:
        """Time of gaps that goes if no launch is late, ns; that of compiling left out."""
        return self.avoidable(self.idle(LATE) & ~self.compiling)

    @cached_property
    def host_of_slack(self) -> float:
        """Time of the host around late launches, as it likely is without a recording, ns.

        There a device works or waits as long as the host takes; recording adds a part of that.
        """
        return (1 - self._recording_part) * (self.late + self.slack)

    @cached_property
    def _recording_part(self) -> float:
        """Part of the host's recorded time that recording adds, 0 to 1."""
        if (times := self._host_a_step) and times[0]:
            return max(0.0, 1 - times[1] / times[0])
        sampled = bool(self.profile.tables.pc.recordings)
        return CONTEXTS_SAMPLING_PART if sampled else CONTEXTS_RECORDING_PART

    @cached_property
    def unrecorded_time(self) -> float:
        """Time of devices in steps, waiting included, as it likely is without a recording, ns."""
        return self.steps.time - self.late * (1 - self.unrecorded)

    @cached_property
    def host_least(self) -> float:
        """Time of steps in which the host works and does not wait, as it likely is without a
        recording, ns; 0 where it never waits, so that its work is not known.

        A host that is ahead may wait for devices after its steps only, so it works no longer than
        its own time in them. No faster kernel makes steps shorter than that.
        """
        waits = self.host_waits(self.steps.with_ends)
        if not waits:
            return 0.0
        most = self.steps.time - waits
        worked = max(0.0, float(self.own("cpu_time")[self.steps.inside].sum()) - waits) or most
        return max(0.0, min(most, worked)) * (1 - self._recording_part)

    @cached_property
    def recording(self) -> str:
        """What is known of what recording does to gaps that end with a launch of the host's."""
        if times := self._host_a_step:
            took, without = map(duration, times)
            steps = f"the host takes {took} for a recorded step, {without} for others"
            return f"{steps}, whose gaps are shorter"
        added = percent(1 - self.unrecorded, 0)
        less = f"the gaps before late launches likely take {added} less time"
        return f"recording slows the host down; without it, {less}"

    @cached_property
    def _host_a_step(self) -> tuple[float, float] | None:
        """The host's time of a recorded step, and of one that was not, ns; None where unknown."""
        known = step_times(self.profile.tables.provenance)
        host = known.means.get("cpu_time") if known else None
        if known is None or host is None or math.isnan(known.skipped):
            return None
        return host[0], known.skipped

    def host_waits(self, nodes: Mask) -> float:
        """Time that the host waits in some nodes, ns: for devices, or for room in their queues."""
        return float((self.own("sync_time") + self.standing)[nodes].sum())

    def host_a_launch(self, inside: Mask) -> float:
        """The host's time a launch in some nodes, without what it waits, ns; 0 where unknown."""
        calls = self._callers(inside & self.kind("kernel")) & self.kind("api")
        launches = float(self.count[calls].sum())
        worked = float(self.own("cpu_time")[inside].sum()) - self.host_waits(inside)
        return max(worked, 0.0) / launches if launches else 0.0

    @cached_property
    def unrecorded(self) -> float:
        """Part of the gaps before late launches that would be there without a recording, 0 to 1:
        as far as the host would still take longer there than the devices' work."""
        return max(0.0, self.host_of_slack - self.slack) / self.late if self.late else 1.0
