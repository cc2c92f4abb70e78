"""Arithmetic of a parallel loop that is the same for all points of an axis: a part of
`redundant-work`.

Static: functions and divisors that depend on no index of an axis (`tiles/per_point`). Dynamic:
samples at the arithmetic of their lines, and what waits for its results.

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
from tileprof.analyzer.tiles.per_point import per_point

_AUTHOR = (
    "Compute it once, in a `T.Parallel` without that axis, and keep the result in a fragment or in"
    " shared memory; of a divisor, its reciprocal."
)
_COMPILER = "No pass moves out of a parallel loop what does not depend on one of its axes."


def computed_per_point(case: KernelCase) -> Iterator[Draft]:
    """Yield functions and divisions that a loop computes again for each point of an axis."""
    code = case.sampled
    for each in per_point(case.tiles) if code else ():
        assert code is not None
        where = [
            i for i in case.at_lines(code, {each.line} - {0})
            if not code.instructions[i].name.startswith(NO_ARITHMETIC)
        ]  # fmt: skip
        own = code.taken(code.rows(where, WITHIN))
        taken = each.part * np.maximum(own, code.waiting_for(where, FOR_RESULTS))
        if code.share(taken) < POINTS_NOTABLE:
            continue
        names, axes = (
            listed([f"`{name.removeprefix('%')}`" for name in held])
            for held in (each.names, each.axes)
        )
        cause = Cause(
            f"the same is computed for each of {each.times:,} points of a parallel loop",
            case.place(case.line(each.line)),
            (Evidence("static", f"{names} in that line: nothing of it depends on {axes}"),),
            _AUTHOR, _COMPILER,
        )  # fmt: skip
        saving = reach.as_told(case, eliminated(taken, code.whole, sure=REDUNDANT_SURE))
        if saving.mid >= COLD:
            yield cause.costs(saving, sampled(code, taken, "are spent on it"))
