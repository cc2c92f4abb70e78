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


def drawn(case: Case, machine_code: bool = True) -> Drawing:
    """Show a kernel; without `machine_code` by its layouts alone."""
    arguments = case.arguments(np.random.default_rng(0))
    return show(case.kernel, *arguments, machine_code=machine_code, **case.options)


def shown(case: Case, machine_code: bool = True) -> Shown:
    """Show a kernel; return what its page says of its launches together."""
    drawing = drawn(case, machine_code)
    launches = drawing.watch.launches
    (machine,) = drawing.machines
    every = [each.traffic for each in launches if each.traffic is not None]
    if len(every) < len(launches):
        raise SystemExit(f"{case.name} has no requests on {machine.target}: {machine.problem}")
    lines: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(LINE_QUANTITIES, 0))
    for place, moved in (row for traffic in every for row in traffic.places.items()):
        if place.way == "shuffle":
            continue
        held = lines[place.line]
        if place.space == "global":
            held["global_sectors"] += moved.taken
            held["global_requests"] += moved.requests
        else:
            held["shared_wavefronts"] += moved.taken
            held["shared_wavefronts_ideal"] += moved.needed
    span = launches[0].op.span
    return Shown(
        {
            each.name: sum(each.shown(of, traffic) for of, traffic in zip(launches, every))
            for each in QUANTITIES
        },
        frozenset(kind for traffic in every for _, _, kind in traffic.uncounted),
        dict(lines),
        frozenset(
            p.line for t in every for p in t.places if p.way == "TMA" and p.space == "global"
        ),
        frozenset(line for traffic in every for line, _, _ in traffic.uncounted),
        span.file if span else "",
        span.line if span else 0,
    )
