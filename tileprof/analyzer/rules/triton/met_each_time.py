"""Reductions to one number, and its atomic, in each iteration: a part of `early-reduction`.

Static: a loop of a Triton kernel that reduces a tile and joins the result with one number in
memory, whose former value nothing uses (`machine/triton/met_each_time`). Dynamic: samples at these
lines in the loop, and in the library's functions that reduce; waits for loads stay.

Of n iterations all but one go: elements of a tile join those of the tile before, in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import ATOMICS, LOADS
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around, turns
from tileprof.analyzer.machine.triton.met_each_time import MetEachTime, met_each_time
from tileprof.analyzer.numbers.shared import COOL, HALFWAY

_AUTHOR = (
    "Keep a tile of partial results over the iterations (`most = tl.maximum(most, tl.abs(x))`), and"
    " reduce it and do the atomic once, after the loop: nothing uses the result in between."
)


def met_in_each_iteration(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for each such atomic."""
    code = case.sampled
    for each in met_each_time(code.ttgir) if code else ():
        where = case.at_lines(code, {each.line}, code.named(*ATOMICS)) if code else []
        hot = code.hottest(where) if code else None
        loop = loop_around(code, hot.index) if code and hot else None
        if code is None or hot is None or loop is None:
            continue
        taken = _taken(case, code, loop, each)
        text = "the number in memory is the same in each iteration, and nothing uses what was there"
        title = "a loop reduces a tile to one number for an atomic in each iteration"
        cause = Cause(title, case.at(hot), (Evidence("static", text),), _AUTHOR)
        seen = sampled(code, taken, "are at it in the loop")
        outside = code.where(lambda each: each.depth == 0)
        part = 1 - min(HALFWAY, max(turns(code, outside), 1.0) / max(turns(code, loop), 1.0))
        saving = reach.as_told(case, eliminated(taken, code.whole, part))
        if saving.mid < COOL:
            yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
            continue
        yield cause.costs(saving, seen, known=True)


def _taken(case: KernelCase, code: KernelCode, loop: range, each: MetEachTime) -> Weights:
    """Samples of the loop at the atomic and its reductions, without those that wait for loads."""
    where = case.at_lines(code, each.lines, loop)
    places = {index: case.user_line(code.instructions[index].place) for index in loop}
    own = {at.file for index in where if (at := places[index]) is not None}
    if each.alone:
        where += [index for index, at in places.items() if at is not None and at.file not in own]
    waits = code.waiting_for(code.named(*LOADS))
    return np.asarray(np.maximum(0.0, code.taken(code.rows(where)) - waits))
