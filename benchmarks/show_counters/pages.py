"""Pages of the kernels: a run in the interpreter, and what its page says of the launch.

In: a case.  Out: `Shown`; no GPU is needed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from benchmarks.show_counters.kernels import Case
from benchmarks.show_counters.quantities import LINE_QUANTITIES, QUANTITIES
from tileprof.drawing import Drawing, show


@dataclass(frozen=True)
class Shown:
    """Numbers of a kernel's page."""

    quantities: dict[str, int]
    uncounted: frozenset[str]
    lines: dict[int, dict[str, int]]
    """Sectors and requests of global memory, wavefronts taken and needed, of each source line."""
    by_engine: frozenset[int]
    """Lines whose global accesses the copy engine makes."""
    disturbed: frozenset[int]
    """Lines at which other instructions access shared memory."""
    file: str
    first: int
    """Line of the launch."""

    @property
    def is_held(self) -> bool:
        """Whether threads load elements once and use them for several points."""
        held = self.quantities
        return held["bytes read"] != held["bytes asked for by reads"]

    @property
    def is_stored_by_sectors(self) -> bool:
        """Whether the copy engine writes sectors that a tile covers in part."""
        held = self.quantities
        return held["bytes written"] < held["bytes asked for by writes"]


def drawn(case: Case) -> Drawing:
    """Show a kernel."""
    return show(case.kernel, *case.arguments(np.random.default_rng(0)), **case.options)


def shown(case: Case) -> Shown:
    """Show a kernel; return what its page says of the launch."""
    drawing = drawn(case)
    (launch,) = drawing.watch.launches
    (machine,) = drawing.machines
    traffic = launch.traffic
    if traffic is None:
        raise SystemExit(f"{case.name} has no requests on {machine.target}: {machine.problem}")
    lines: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(LINE_QUANTITIES, 0))
    for place, moved in traffic.places.items():
        if place.way == "shuffle":
            continue
        held = lines[place.line]
        if place.space == "global":
            held["global_sectors"] += moved.taken
            held["global_requests"] += moved.requests
        else:
            held["shared_wavefronts"] += moved.taken
            held["shared_wavefronts_ideal"] += moved.needed
    span = launch.op.span
    return Shown(
        {each.name: each.shown(launch, traffic) for each in QUANTITIES},
        frozenset(kind for _, _, kind in traffic.uncounted),
        dict(lines),
        frozenset(p.line for p in traffic.places if p.way == "TMA" and p.space == "global"),
        frozenset(line for line, _, _ in traffic.uncounted),
        span.file if span else "",
        span.line if span else 0,
    )
