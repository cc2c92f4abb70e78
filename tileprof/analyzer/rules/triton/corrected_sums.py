"""Sums that are corrected for their rounding: a part of `redundant-work`.

Static: a Triton kernel that takes from a new sum the old one and what was added
(`machine/corrected_sums`), as Kahan's summation does. Dynamic: samples at these lines, and half as
many more: of three operations that come to the addition, two are there, and the third is where the
correction is applied, with other work.

Additions of numbers that lie in a tile are as many sums side by side as the tile has elements, so
each has few addends already, and few roundings.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.machine.corrected_sums import correction_lines
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.numbers.work import CORRECTED_SUMS_ALL

_AUTHOR = (
    "Add without the correction if results stay within what is needed: each element of the tile is"
    " a sum of its own over the loop, which loses little. Where it does not, add up chunks first,"
    " and correct once a chunk."
)


def corrected_sums(case: KernelCase) -> Iterator[Draft]:
    """Yield a finding for a kernel that corrects its sums."""
    code = case.sampled
    lines = correction_lines(code.ttgir) if code else ()
    where = case.at_lines(code, lines) if code and lines else []
    if code is None or not where:
        return
    text = "what rounding lost is computed at each addition, by three more operations"
    title = "a sum is corrected for its rounding at each addition"
    place = case.place(case.line(lines[0]))
    cause = Cause(title, place, (Evidence("static", text),), _AUTHOR)
    taken = CORRECTED_SUMS_ALL * code.taken(code.rows(where))
    seen = sampled(code, taken, "are at its operations")
    if code.share(taken) < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
        return
    yield cause.costs(eliminated(taken, code.whole), seen, confidence="low")
