"""Loops in which all threads of a program load the same numbers: a part of `redundant-work`.

Static: a loop of a Triton kernel that loads single numbers and has no tensor
(`machine/triton/scalar_loops`), as where a program looks through a table for its own place.
Dynamic: samples at its lines.

A vector of the table is one load and a reduction, and a search by halves asks log n numbers.
Blocks wait there beside others that work, so what surely goes are the slots in which these
instructions issue, at most all samples at them. (On an H200 ten such searches among 64 numbers took
0.004 to 0.36 of the time; the slots were 0.01 to 0.38 of the cycles.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.machine.code import ISSUED
from tileprof.analyzer.machine.triton.scalar_loops import scalar_loops
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING

_AUTHOR = (
    "Load the numbers as one vector and reduce it (`tl.sum(tl.load(table + tl.arange(0, N)) <= x)`"
    " counts what is below x), search by halves where they are sorted, or compute the result once"
    " before the launch and load that."
)


def scalar_searches(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each loop over single numbers."""
    code = case.sampled
    for lines in scalar_loops(code.ttgir) if code else ():
        where = case.at_lines(code, lines) if code else []
        hot = code.hottest(where) if code else None
        if code is None or hot is None:
            continue
        text = "all threads load the same number in each iteration, and nothing else is done there"
        title = "each program goes through memory number by number in a loop"
        cause = Cause(title, case.at(hot), (Evidence("static", text),), _AUTHOR)
        taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
        seen = sampled(code, taken, "are at it, or wait for it")
        slots = busy_share(code) * code.n(where, (ISSUED,)) / max(code.issued, 1)
        left = reach.left(case, taken)
        mid = min(slots, left.mid if left else 1.0, code.share(taken), LONGEST_SAVING)
        if mid < COLD:
            yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
            continue
        most = min(code.share(taken), left.high if left else 1.0, LONGEST_SAVING)
        saving = Saving(0.0, mid, max(mid, most), samples=int(taken.sum()))
        yield cause.costs(saving, seen, known=True)
