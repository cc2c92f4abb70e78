"""Requests of a page beside those of the machine code, run on the processor.

In: cases.  Out: lines of text; `!` marks a kind of request in which the two differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.show_counters.kernels import Case
from benchmarks.show_counters.pages import drawn
from tileprof import binary, ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing import Drawing
from tileprof.drawing.machine_code.memory import Key
from tileprof.drawing.machine_code.running import ran
from tileprof.drawing.moved import Moved
from tileprof.runtime.events.access import Access, listening
from tileprof.runtime.selection import device

Both = dict[Key, tuple[Moved, Moved]]


class _Calls:
    """Listener that keeps the arguments of a kernel's call."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.symbols: list[int] = []

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Copy the arguments, which the run changes."""
        self.values = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        self.symbols = list(symbols)

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Begin a launch."""

    def note(self, access: Access) -> None:
        """Leave an access out."""


@dataclass(frozen=True)
class Prepared:
    """A case whose page is made, before its machine code runs."""

    drawing: Drawing
    program: CudaProgram
    values: Sequence[Any]
    symbols: Sequence[int]


def prepared(case: Case) -> Prepared:
    """Make a case's page, and lower its kernel."""
    drawing = drawn(case, machine_code=False)
    (machine,) = drawing.machines
    calls = _Calls()
    with device("interpreter"), listening(calls):
        case.kernel(*case.arguments(np.random.default_rng(0)), **case.options)
    controls = getattr(case.kernel, "controls", None)
    program = compile_cuda(
        drawing.watch.kernels[0], find_target(drawing.target), controls, machine.unaligned
    )
    return Prepared(drawing, program, calls.values, calls.symbols)


def beside(case: Case) -> tuple[Both, list[str], list[str]]:
    """Return requests by kind, of the page and of the machine code; what the page does not count;
    opcodes whose results are not known."""
    return compared(prepared(case))


def compared(
    held: Prepared, code: binary.Function | None = None
) -> tuple[Both, list[str], list[str]]:
    """Return what `beside` does; `code` is the function of a kernel of one launch, where that is
    compiled.  A launch works on what the ones before it left."""
    made: dict[Key, tuple[Moved, Moved]] = defaultdict(lambda: (Moved(), Moved()))
    values, left_out, unknown = held.values, set[str](), set[str]()
    for at, launch in enumerate(held.drawing.watch.launches):
        file = launch.op.span.file if launch.op.span else ""
        found = ran(held.program, values, held.symbols, file, at, code)
        traffic = launch.traffic
        for place, moved in (traffic.places if traffic else {}).items():
            if place.way != "TMA" and not (place.way == "cp.async" and place.space == "shared"):
                made[place.space, place.access, place.way][0].add(moved)
        for asked, moved in found.counted.items():
            made[asked.kind][1].add(moved)
        made["fragment", "read", "shuffle"][1].add(
            Moved(found.shuffles, found.shuffles, found.shuffles, 128 * found.shuffles)
        )
        left_out.update(kind for _, _, kind in (traffic.uncounted if traffic else ()))
        unknown.update(found.unknown)
        values = found.results
    return dict(made), sorted(left_out), sorted(unknown)


def text(cases: Sequence[Case]) -> Iterator[str]:
    """Yield lines of text."""
    for case in cases:
        both, left_out, unknown = beside(case)
        yield case.name + (f" (not on the page: {', '.join(left_out)})" if left_out else "")
        for (space, access, way), (page, code) in sorted(both.items()):
            differs = page.taken != code.taken or page.needed != code.needed
            if space == "global":
                differs = page != code
            unit = "sectors" if space == "global" else "wavefronts"
            yield (
                f" {'!' if differs else ' '} {space} {access}, {way}: page {page.requests:,}"
                f" requests, {page.taken:,} {unit}; machine code {code.requests:,}, {code.taken:,}"
            )
        for each in unknown:
            yield f"   not known: {each}"
