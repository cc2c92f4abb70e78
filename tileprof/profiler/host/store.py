"""Numbers that a session has been handed, until they become its profile."""

from __future__ import annotations

from tileprof.profiler.device.timeline import TimelineStore
from tileprof.profiler.host.excerpts import Excerpts
from tileprof.profiler.tree.sketch_sums import SketchSums
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals, LaunchTotals
from tileprof.runtime.hooks import Measured


class Store:
    """Data that a session was given so far, by index of the node; and its timeline, if it wants
    one."""

    def __init__(self, timeline: int = 0) -> None:
        self.timeline = TimelineStore(timeline) if timeline else None
        self.host: dict[int, HostTotals] = {}
        self.launches: dict[int, LaunchTotals] = {}
        self.device: dict[int, DeviceTotals] = {}
        self.sketches = SketchSums()
        """Times of what devices did."""
        self.excerpts = Excerpts()

    def take(self, index: int, host: HostTotals, launches: LaunchTotals | None) -> None:
        """Add one period's numbers of a node."""
        self.host.setdefault(index, HostTotals()).take(host)
        if launches is not None:
            self.launches.setdefault(index, LaunchTotals()).take(launches)

    def take_device(self, index: int, totals: DeviceTotals) -> None:
        """Add what a device did at a node; its sketch at the next `sketches.settle`."""
        self.device.setdefault(index, DeviceTotals(totals.what)).take(totals)
        if totals.sketch is not None:
            self.sketches.add(index, totals.sketch)

    def take_measured(self, index: int, measured: Measured) -> None:
        """Add what launches of a kernel wrote about their inside."""
        self.launches.setdefault(index, LaunchTotals()).add_measured(measured)
