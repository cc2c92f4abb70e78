"""Programs of a Triton grid that do the same work as others: a part of `redundant-work`.

Static: the module's text (`machine/program_ids`) and the grid of its launches. Dynamic: times.

Of k programs that do the same all but one go. While the rest are more than a device holds at once,
each wave takes as long as before, so nearly all of 1 - 1 / k goes. A program that loads what
another one has loaded finds it in a cache, so that it takes less time. Where all programs run at
once, those that stay take as long as their own latency, unless a roof or the schedulers set the
time: of what work takes there (`reach`), 1 - 1 / k goes all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import launch_of, launch_place
from tileprof.analyzer.machine.program_ids import programs_alike
from tileprof.analyzer.rules.machine_code.numbers import SAME_PROGRAMS, SAME_PROGRAMS_AT_ONCE

_AUTHOR = (
    "Launch as many programs as there are tiles: nothing but these values depends on a program's"
    " number, so the others store what is stored already."
)


def same_programs(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for a kernel of whose programs several do the same."""
    code, grid, launch = case.code, case.extents("grid"), launch_of(case)
    if code is None or launch is None or not _is_of_all(case):
        return
    alike = programs_alike(code.ttgir, grid)
    if alike <= 1:
        return
    times = f"{alike:.0f}" if alike.is_integer() else f"{alike:.1f}"
    static = Evidence(
        "static",
        f"of {launch.blocks:,} programs in the grid, {launch.blocks / alike:,.0f} differ in what"
        " they compute from their number",
    )
    title = f"the same work is done by {times} programs of the grid"
    cause = Cause(title, launch_place(case), (static,), _AUTHOR)
    if not case.time or not case.launches:
        yield cause.warning()
        return
    at_once = launch.waves / alike < 1
    least, likely, most = SAME_PROGRAMS_AT_ONCE if at_once else SAME_PROGRAMS
    if at_once and (left := reach.left(case)) is not None:
        likely = max(likely, 1 - left.mid)
    low, mid, high = (part * (1 - 1 / alike) for part in (least, likely, most))
    text = f"a launch takes {duration(case.time / case.launches)}"
    yield cause.costs(
        Saving(low, mid, high), Evidence("activities", text), most=alike, known=not at_once
    )


def _is_of_all(case: KernelCase) -> bool:
    """Whether all launches have the grid that is known: the number of all blocks tells."""
    blocks = case.total("blocks")
    return not blocks or math.isclose(blocks, case.launches * case.extent("grid"))
