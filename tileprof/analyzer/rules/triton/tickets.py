"""Programs that take their number from a counter in memory: a part of `atomic-traffic`.

Static: a Triton kernel whose programs each add 1 to a number, once and before all else, and use
what they got as their own number; nothing else makes them wait for each other
(`machine/triton_addresses`). Dynamic: samples at that line, and of what waits for the answer.

A program has a number already, which costs nothing. Only waits count in which no other warp issues,
and likely half of them: programs that are not held up there meet at the next wait. (On an H200
kernels of 15 that had 0.03 to 0.23 of such waits became 1.0 to 1.5 times as fast, most of them 1.0
to 1.1 times.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.machine.triton_addresses import ticket_line
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING

_AUTHOR = (
    "Use `tl.program_id(0)`, which each program has without asking memory: no program waits for"
    " another one here, so the order in which they begin is of no use. Leave out the counter, and"
    " the pass that clears it before each launch."
)


def tickets(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for a kernel whose programs count themselves."""
    code = case.sampled
    line = ticket_line(code.ttgir) if code else 0
    where = case.at_lines(code, {line}) if code and line else []
    if code is None or not where:
        return
    text = "each program adds 1 to a number in memory for a number of its own, and nothing else"
    title = "programs take their number from a counter in memory, one after the other"
    cause = Cause(title, case.place(case.line(line)), (Evidence("static", text),), _AUTHOR)
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
    seen = sampled(code, taken, "are at it, or wait for it")
    idle, most = code.share(taken * code.idle_part), min(code.share(taken), LONGEST_SAVING)
    left = reach.left(case)
    mid = min(HALFWAY * idle, left.mid if left else 1.0)
    if mid < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
        return
    yield cause.costs(Saving(0.0, mid, max(mid, most), samples=int(taken.sum())), seen, known=True)
