"""Elements of a tile that are combined by an atomic each, where a reduction would do.

Static: an atomic whose place does not depend on an axis of the loop around it, so all points of
that axis meet at one element. Dynamic: samples at its lines, and of what waits for its results.

Atomics on one element are done one after the other, and those on floats in shared memory are loops
that try until no other thread was faster. A reduction in registers and by exchanges takes a small
part of that, so all of these samples go but for what it takes itself.

    for p, q in T.Parallel(1, N): T.atomic_add(total[p], x[p, q])      N atomics on total[0]
    T.reduce_sum(x, total, dim=1)                                      a sum in registers
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import (
    ATOMIC_SUMS_FEWEST,
    ATOMIC_SUMS_GO,
    ATOMIC_SUMS_SURE,
)
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op

_REDUCTIONS = {"add": "sum", "max": "max", "min": "min"}
"""Names of reductions, keyed by the operation of an atomic."""
_COMPILER = "No pass makes a reduction of atomics that meet at one element."


def find(case: KernelCase) -> Iterator[Draft]:
    """Yield a draft for each atomic that a reduction could replace."""
    effects = effects_of(case.tiles)
    for op, around in case.tiles.nested:
        if op.name == "atomic" and op.word in _REDUCTIONS:
            meet = _meeting(effects, op, around)
            if meet >= ATOMIC_SUMS_FEWEST:
                yield _draft(case, op, meet)


def _meeting(effects: Effects, op: Op, around: tuple[Op, ...]) -> int:
    """Return how many points of the parallel loops around an atomic combine one element.

    An axis that a condition depends on counts as one point: a single thread may be chosen by it.
    """
    placed = frozenset[str]().union(*map(effects.used, op.listed))
    for each in around:
        if each.name == "if":
            placed = placed.union(*map(effects.used, each.operands))
    extents = (
        effects.values.turns.get(axis)
        for each in around if each.name == "parallel"
        for axis in each.arguments if axis not in placed
    )  # fmt: skip
    return math.prod(1 if extent is None else int(extent.min()) for extent in extents)


def _draft(case: KernelCase, op: Op, meet: int) -> Draft:
    target, reduction = op.operands[-1][1:], _REDUCTIONS[str(op.word)]
    static = Evidence("static", f"the place in `{target}` is the same for {meet:,} elements")
    author = (
        f"Reduce the tile first (`T.reduce_{reduction}` along that axis), in registers and by"
        f" exchanges between lanes. Then a block needs one atomic for each element of `{target}`,"
        " or none where no other block adds to it."
    )
    title = f"{meet:,} elements are combined by atomics on one element of `{target}`"
    place = case.place(case.line(op.line), f"atomic {target}")
    cause = Cause(title, place, (static,), author, _COMPILER)
    code = case.sampled
    where = case.at_lines(code, {op.line}) if code and op.line else []
    if code is None or not where:
        return cause.warning()
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
    seen = sampled(code, taken, "are at them, or wait for them")
    if code.share(taken) < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    saving = eliminated(taken, code.whole, ATOMIC_SUMS_GO, ATOMIC_SUMS_SURE)
    return cause.costs(saving, seen)


RULE = KernelRule("atomic-traffic", find)
