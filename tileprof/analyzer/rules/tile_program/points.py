"""Work of a parallel loop that is the same for all points of an axis: parts of `redundant-work` and
of `redundant-traffic`.

Static: functions, divisors and loads that depend on no index of an axis (`tiles/per_point`).
Dynamic: samples at the arithmetic of their lines, or at their loads.

Of a line's samples the part goes that such work is of its instructions. Loads of the same elements
come from L1, and wait no longer than others of the line, so issue slots and places in the queue are
all that goes with them. Whole numbers are left out: elements that go by a number have to wait for
it whoever loads it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, listed
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.machine.arithmetic import FOR_RESULTS, NO_ARITHMETIC, WITHIN
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import (
    POINTS_LOADED,
    POINTS_NOTABLE,
    REDUNDANT_SURE,
)
from tileprof.analyzer.tiles.per_point import PerPoint, per_point

_COMPUTE = (
    "Compute it once, in a `T.Parallel` without that axis, and keep the result in a fragment or in"
    " shared memory; of a divisor, its reciprocal."
)
_LOAD = (
    "Load the elements once, into a fragment or into shared memory, before the loop over that axis."
)
_COMPILER = "No pass moves out of a parallel loop what does not depend on one of its axes."


def computed_per_point(case: KernelCase) -> Iterator[Draft]:
    """Yield functions and divisions that a loop computes again for each point of an axis."""
    yield from (d for e in per_point(case.tiles) if not e.loads for d in _drafts(case, e))


def loaded_per_point(case: KernelCase) -> Iterator[Draft]:
    """Yield elements that a loop loads again for each point of an axis."""
    for each in per_point(case.tiles):
        if each.loads and each.times >= POINTS_LOADED:
            yield from _drafts(case, each)


def _drafts(case: KernelCase, each: PerPoint) -> Iterator[Draft]:
    """Yield what such work costs, if that is much: a compiler merges what one thread does."""
    code = case.sampled
    where = case.at_lines(code, {each.op.line} - {0}) if code else []
    if code is None or not where:
        return
    taken = each.part * _taken(code, where, each)
    if code.share(taken) < POINTS_NOTABLE:
        return
    names = listed([f"`{name}`" for name in each.names])
    done = "loaded" if each.loads else "computed"
    axes = listed([f"`{name[1:]}`" for name in each.axes])
    text = f"{names} in that line do not depend on {axes}"
    place = case.place(case.line(each.op.line), f"load {each.names[0]}" if each.loads else "")
    cause = Cause(
        f"the same is {done} for each of {each.times:,} points of a parallel loop", place,
        (Evidence("static", text),), _LOAD if each.loads else _COMPUTE, _COMPILER,
    )  # fmt: skip
    saving = reach.as_told(case, eliminated(taken, code.whole, sure=REDUNDANT_SURE))
    if saving.mid >= COLD:
        yield cause.costs(saving, sampled(code, taken, "are spent on it"))


def _taken(code: KernelCode, where: list[int], each: PerPoint) -> Weights:
    """Return the samples of a line's loads, or of its arithmetic with what waits for results."""
    if each.loads:
        return code.taken(code.rows([i for i in where if code.instructions[i].name in LOADS]))
    own = [i for i in where if not code.instructions[i].name.startswith(NO_ARITHMETIC)]
    return np.maximum(code.taken(code.rows(own, WITHIN)), code.waiting_for(own, FOR_RESULTS))
