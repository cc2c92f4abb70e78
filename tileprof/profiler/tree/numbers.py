"""Everything that one session recorded, by node of the recorder's tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof.once import cached_property
from tileprof.profile import Sketch
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals, LaunchTotals, MemoryTotals
from tileprof.profiler.tree.tree import NATIVE, Node


@dataclass(frozen=True)
class Numbers:
    """Numbers of a session for each node, by the node's index."""

    nodes: list[Node]
    host: list[HostTotals | None]
    launches: list[LaunchTotals | None]
    device: list[DeviceTotals | None]
    memory: list[MemoryTotals | None]
    sketches: dict[int, Sketch] = field(default_factory=dict)
    """Times of what devices did."""
    multiplied: dict[int, str] = field(default_factory=dict)
    """Types that the matrix products of kernels multiply, in XLA's names, where it says so."""

    @cached_property
    def wanted(self) -> list[bool]:
        """Return, for each node, whether there is anything at it or below it."""
        wanted = [
            bool(launches or device or memory or (totals and not totals.empty()))
            for totals, launches, device, memory in zip(
                self.host, self.launches, self.device, self.memory
            )
        ]
        for node in reversed(self.nodes[1:]):
            if wanted[node.index] and node.parent is not None:
                wanted[node.parent.index] = True
        return wanted

    def native_calls(self) -> set[int]:
        """Return the calls in native code that lead to something."""
        nodes = [node for node in self.nodes if node.kind == NATIVE and self.wanted[node.index]]
        return {node.native_call for node in nodes if node.native_call is not None}

    def files(self) -> list[str]:
        """Return the files in which these nodes are, in first-seen order."""
        places = [node.location for node in self.nodes if self.wanted[node.index]]
        return list(dict.fromkeys(place.file for place in places if place is not None))
