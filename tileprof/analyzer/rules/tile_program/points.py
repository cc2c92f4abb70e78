"""Functions that a parallel loop calls more often than it has to: a part of `redundant-work`.

Static: functions and divisors that depend on no index of an axis, and calls that one could replace
(`tiles/per_point`). Dynamic: samples at the arithmetic of their lines, and what waits for its
results.

Of a line's samples the part goes that such work is of its instructions. A compiler merges what one
thread computes for several points, so little of it may be there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, listed
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.machine.arithmetic import FOR_RESULTS, NO_ARITHMETIC, WITHIN
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import POINTS_NOTABLE, REDUNDANT_SURE
from tileprof.analyzer.tiles.per_point import Joined, PerPoint, joined_calls, per_point

_AUTHOR = (
    "Compute it once, in a `T.Parallel` without that axis, and keep the result in a fragment or in"
    " shared memory; of a divisor, its reciprocal."
)
_COMPILER = "No pass moves out of a parallel loop what does not depend on one of its axes."
_JOIN = (
    "Call `{name}` once: {same}. See that its argument does not overflow, and that it keeps its"
    " digits."
)
_NO_JOIN = "No pass joins two calls of a function, as the result differs in its last digits."


def called_too_often(case: KernelCase) -> Iterator[Draft]:
    """Yield functions and divisions that a loop computes again for each point of an axis, and calls
    of functions that one call could replace."""
    for each in per_point(case.tiles):
        names, axes = (
            listed([f"`{name.removeprefix('%')}`" for name in held])
            for held in (each.names, each.axes)
        )
        text = f"{names} in that line: nothing of it depends on {axes}"
        title = f"the same is computed for each of {each.times:,} points of a parallel loop"
        yield from _draft(case, each, title, text, _AUTHOR, _COMPILER)
    for call in joined_calls(case.tiles):
        title = f"`{call.name}` is called twice, where one call would do"
        text = f"two results of `{call.name}` only go into one number: {call.same}"
        way = _JOIN.format(name=call.name, same=call.same)
        yield from _draft(case, call, title, text, way, _NO_JOIN)


def _draft(
    case: KernelCase, each: PerPoint | Joined, title: str, text: str, author: str, compiler: str
) -> Iterator[Draft]:
    """Yield what a part of a line's arithmetic costs; nothing where it is little."""
    code = case.sampled
    if code is None:
        return
    where = [
        i for i in case.at_lines(code, {each.line} - {0})
        if not code.instructions[i].name.startswith(NO_ARITHMETIC)
    ]  # fmt: skip
    own = code.taken(code.rows(where, WITHIN))
    taken = each.part * np.maximum(own, code.waiting_for(where, FOR_RESULTS))
    if code.share(taken) < (POINTS_NOTABLE if isinstance(each, PerPoint) else COLD):
        return
    place = case.place(case.line(each.line))
    cause = Cause(title, place, (Evidence("static", text),), author, compiler)
    saving = reach.as_told(case, eliminated(taken, code.whole, sure=REDUNDANT_SURE))
    if saving.mid >= COLD:
        yield cause.costs(saving, sampled(code, taken, "are spent on it"))
