"""Requests of a launch and what they take, summed for each place of the program.

In: numbers of single requests.  Out: a `Traffic`, whose places know their line, buffer and way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tileprof import ir
from tileprof.runtime.events.access import AccessKind

Way = Literal["threads", "ldmatrix", "stmatrix", "cp.async", "TMA", "shuffle"]
"""Mover of the bytes: instructions of all threads or warps, copies that run beside them, or lanes
of a warp that pass words to each other."""
Uncounted = Literal[
    "matrix operands", "copied matrices", "products in threads", "exchange of threads",
    "split copies", "other",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the program that accesses a buffer in one way."""

    file: str
    line: int
    access: AccessKind
    buffer: str
    space: ir.Space
    way: Way


@dataclass(slots=True)
class Moved:
    """Requests of all blocks at one place, summed."""

    requests: int = 0
    """Instructions of warps with a lane that takes part; boxes for TMA are not counted: 0."""
    taken: int = 0
    """Sectors of 32 bytes in global memory, wavefronts in shared memory; 0 for TMA."""
    needed: int = 0
    """Fewest that the bytes need, request by request."""
    bytes: int = 0
    """Bytes that requests ask for; what several lanes of one ask for counts once."""
    joined: int = 0
    """Sectors among `taken` that the L1 counts as one with another sector of their line, because
    cp.async copies halves of both to one sector of shared memory."""
    parted: int = 0
    """Wavefronts beyond `needed` that are no bank conflicts: words of 8 or 16 bytes are served in
    parts of a warp, and each part with a lane takes a wavefront, however few its lanes."""

    def add(self, other: Moved) -> None:
        """Add another place's or block's numbers."""
        self.requests += other.requests
        self.taken += other.taken
        self.needed += other.needed
        self.bytes += other.bytes
        self.joined += other.joined
        self.parted += other.parted

    def times(self, count: int) -> Moved:
        """Return the numbers of so many that are alike."""
        return Moved(
            self.requests * count, self.taken * count, self.needed * count, self.bytes * count,
            self.joined * count, self.parted * count,
        )  # fmt: skip


@dataclass(eq=False)
class Traffic:
    """Requests of one launch."""

    places: dict[Place, Moved] = field(default_factory=dict)
    uncounted: dict[tuple[int, str, Uncounted], None] = field(default_factory=dict)
    """Line, op and kind of what accesses shared memory beside these."""
    by_machine_code: bool = False
    """Whether the machine code ran; otherwise numbers follow from layouts."""

    def total(
        self, space: ir.Space, access: AccessKind | None = None, way: Way | None = None
    ) -> Moved:
        """Return the sum over the places of a memory; of one kind of access or way if asked."""
        made = Moved()
        for place, moved in self.places.items():
            if place.space == space and access in (None, place.access) and way in (None, place.way):
                made.add(moved)
        return made
