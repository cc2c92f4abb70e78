"""Indices that are counted in 64 bits, though 32 do: a part of `slow-math`.

Static: places of accesses that go back to an index which the author cast to 64 bits, of tensors
with fewer than 2³¹ elements (`tiles/gathers`). Dynamic: samples at the lines of these accesses.

A multiprocessor counts in 32 bits: a number of 64 takes two instructions for one, and a comparison
as well. So of the arithmetic of such lines, which is of places for the most part, half goes. Nor
does the compiler see through the cast that neighbouring elements are neighbours, so it loads and
stores them one by one: what narrow or scattered accesses of these lines cost goes too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.machine.arithmetic import NO_ARITHMETIC, WITHIN
from tileprof.analyzer.numbers.shared import COLD, HALFWAY
from tileprof.analyzer.rules import coalescing, narrow_access
from tileprof.analyzer.rules.tile_program.numbers import REDUNDANT_SURE
from tileprof.analyzer.tiles.gathers import widened_lines

_AUTHOR = (
    "Leave out the cast to `T.int64`: indices are as wide as the tensor's size asks for, and no"
    " tensor here needs more than 32 bits."
)
_COMPILER = "No pass narrows an index that was cast, or finds neighbours behind the cast."


def find(case: KernelCase) -> Iterator[Draft]:
    """Yield what indices of 64 bits cost, if any access has one."""
    lines, code = widened_lines(case.tiles), case.sampled
    if not lines:
        return
    static = Evidence("static", "places of accesses go back to an index that is cast to 64 bits")
    title, place = "indices are counted in 64 bits", case.place(case.line(min(lines)))
    cause = Cause(title, place, (static,), _AUTHOR, _COMPILER)
    if code is None or not code.whole:
        yield cause.warning()
        return
    here = case.at_lines(code, lines)
    where = [i for i in here if not code.instructions[i].name.startswith(NO_ARITHMETIC)]
    taken = HALFWAY * code.taken(code.rows(where, WITHIN))
    seen = sampled(code, code.taken(code.rows(here)), "are in lines with such accesses")
    counted = cause.costs(eliminated(taken, code.whole, sure=REDUNDANT_SURE), seen)
    best, most = counted, float(taken.sum()) / code.whole
    for each in chain(narrow_access.accesses(case), coalescing.accesses(case)):
        if each.line in lines and each.saving is not None and each.saving.mid > most:
            more = cause.costs(each.saving, seen, *each.evidence, most=each.most)
            best, most = more, each.saving.mid
    if most < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
        return
    yield best


RULE = KernelRule("slow-math", find)
