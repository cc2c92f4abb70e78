"""Reductions that ask in each iteration what the iteration's number tells: of `early-reduction`.

Static: a branch in a Triton kernel's loop that a reduction of masks decides, where the masks depend
on places alone (`machine/place_checks`). Dynamic: samples of the exchanges between threads before
the branch, and of what waits for them; waits for loads behind the branch.

The loop's own bounds say which iterations have elements, so threads need not meet. Loads behind a
branch are not issued before it, so that what they wait for is in sight in each iteration: a half of
these waits goes likely, as nothing says how far ahead they would be issued.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.place_checks import place_checks
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING

_EXCHANGES = ("BAR", "SHFL", "REDUX", "VOTE", "STS", "LDS")
_AUTHOR = (
    "Leave the check out: the loop's bounds say which iterations have elements, and masks keep"
    " those of the last one. Where it is needed, compare numbers: `if start < n:` asks no other"
    " thread."
)


def checked_places(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each such branch."""
    code = case.sampled
    for line in place_checks(code.ttgir) if code else ():
        assert code is not None
        branch = code.hottest(case.at_lines(code, (line,), code.named("BRA")))
        loop = loop_around(code, branch.index) if branch else None
        if branch is not None and loop is not None:
            yield _draft(case, code, line, range(loop.start, branch.index), loop)


def _draft(case: KernelCase, code: KernelCode, line: int, before: range, loop: range) -> Draft:
    exchanges = [i for i in before if code.instructions[i].name in _EXCHANGES]
    met = np.maximum(code.taken(code.rows(exchanges)), code.waiting_for(exchanges))
    loads = [i for i in loop if i not in before and code.instructions[i].name in LOADS]
    held = np.maximum(met, code.waiting_for(loads))
    static = Evidence("static", "the reduced mask depends on no memory, only on places and numbers")
    title = "a loop reduces a mask across threads in each iteration to learn what its bounds say"
    cause = Cause(title, case.place(case.line(line)), (static,), _AUTHOR)
    own, most = code.share(met), min(code.share(held), LONGEST_SAVING)
    seen = sampled(code, held, "are at these exchanges, or wait for them or for loads behind them")
    mid = own + HALFWAY * max(0.0, most - own)
    if mid < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    return cause.costs(Saving(HALFWAY * own, mid, most, samples=int(held.sum())), seen)
