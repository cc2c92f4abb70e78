"""Elements that are combined by an atomic each, where a reduction, or fewer atomics, would do.

Static: an atomic whose place does not depend on an axis of the loop around it, so all points of
that axis meet at one element. Dynamic: samples at its lines, and of what waits for its results.

Atomics on one element are done one after the other, and those on floats in shared memory are loops
that try until no other thread was faster. A reduction in registers and by exchanges takes a small
part of that, so all of these samples go but for what it takes itself.

    for p, q in T.Parallel(1, N): T.atomic_add(total[p], x[p, q])      N atomics on total[0]
    T.reduce_sum(x, total, dim=1)                                      a sum in registers

An atomic in a serial loop that comes to the same place in each iteration could be one after the
loop. Where data choose the place among few elements of a tensor in global memory, a block can hold
these in shared memory, so that the tensor takes one atomic for each of them.

Where one warp of a block does the atomic in each iteration of a loop with barriers, it is late at
the next one by the latency of L2, and all others wait for it there: most of these waits go as well.

L2 does atomics on one element in turn. Where all that meet at an element of global memory take most
of the kernel's time, no warp waits at them, as nobody needs their results: they hold up loads and
stores of all blocks, wherever these are. Then a kernel without them takes what its other work does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.late_warps import late_at
from tileprof.analyzer.kernel.launches import sampled_share
from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import loops_of
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.tile_program.numbers import (
    ATOMIC_SUMS_BOUND,
    ATOMIC_SUMS_EACH,
    ATOMIC_SUMS_FEWEST,
    ATOMIC_SUMS_GO,
    ATOMIC_SUMS_HELD,
    ATOMIC_SUMS_LATE,
    ATOMIC_SUMS_SURE,
)
from tileprof.analyzer.rules.triton.tickets import tickets
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op

_REDUCTIONS = {"add": "sum", "max": "max", "min": "min"}
"""Names of reductions, keyed by the operation of an atomic."""
_REDUCE = (
    "Reduce the tile first (`T.reduce_{0}` along that axis), in registers and by exchanges between"
    " lanes. Then a block needs one atomic for each element of `{1}`, or none where no other block"
    " adds to it."
)
_AFTER = (
    "Combine the numbers in registers, in a fragment or a variable, and with `{0}` once after the"
    " loop: by one atomic, or by a store where no other block has a part in it."
)
_PRIVATE = (
    "Combine them in shared memory first, in an array for each block, or for each few warps, and"
    " then each of its elements with `{0}` once."
)
_COMPILER = "No pass makes a reduction of atomics that meet at one element."


def find(case: KernelCase) -> Iterator[Draft]:
    """Yield a draft for each atomic that something else could replace, or do beforehand."""
    yield from tickets(case)
    effects = effects_of(case.tiles)
    for op, around in case.tiles.nested:
        if op.name != "atomic" or op.word not in _REDUCTIONS:
            continue
        target, reduction = op.operands[-1][1:], _REDUCTIONS[str(op.word)]
        if (meet := round(_meeting(effects, op, around))) >= ATOMIC_SUMS_FEWEST:
            title = f"{meet:,} elements are combined by atomics on one element of `{target}`"
            static = f"the place in `{target}` is the same for {meet:,} elements"
            yield _draft(case, op, title, static, _REDUCE.format(reduction, target), alone=True)
        elif (turns := _in_series(effects, op, around)) >= ATOMIC_SUMS_FEWEST:
            title = f"each iteration of a loop combines the same elements of `{target}` by atomics"
            static = f"the place in `{target}` does not change in the loop"
            busy = _time_in_turn(case, effects, op, around)
            yield _draft(case, op, title, static, _AFTER.format(target), 1 - 1 / turns, busy)
        elif often := _private(effects, op, around):
            title = f"atomics meet at few elements of `{target}` in global memory"
            static = (
                f"a block combines {often:,.0f} numbers with each element on average, and has room"
                " for these in shared memory"
            )
            yield _draft(case, op, title, static, _PRIVATE.format(target), 1 - 1 / often)


def _meeting(effects: Effects, op: Op, around: tuple[Op, ...]) -> float:
    """Return how many points of the parallel loops around an atomic combine one element.

    An axis that a condition depends on counts as one point: a single thread may be chosen by it.
    """
    placed = _placed(effects, op)
    for each in around:
        if each.name == "if":
            placed = placed.union(*map(effects.used, each.operands))
    return _points(effects, around, "parallel", placed)


def _placed(effects: Effects, op: Op) -> frozenset[str]:
    """Return what the place of an atomic goes back to: indices, and buffers that are loaded."""
    return frozenset[str]().union(*map(effects.used, op.listed))


def _points(
    effects: Effects, around: tuple[Op, ...], kind: str, placed: Collection[str] = ()
) -> float:
    """Return how often loops of a kind, or blocks, run what is inside, on average, those of
    `placed` indices left out; an unknown extent counts once."""
    values = effects.values
    extents = (
        values.number(extent) if kind == "launch" else values.turns.get(axis)
        for each in around if each.name == kind
        for axis, extent in zip(each.arguments, each.listed or each.arguments)
        if axis not in placed
    )  # fmt: skip
    return math.prod(1 if each is None else max(1.0, float(np.mean(each))) for each in extents)


def _in_series(effects: Effects, op: Op, around: tuple[Op, ...]) -> float:
    """Return how often serial loops around an atomic come to the same place, whose element nothing
    in them reads: as often as data say is often; 0 for not at all."""
    placed, target = _placed(effects, op), effects.root(op.operands[-1])
    often = 1.0
    for loop in reversed([each for each in around if each.name in ("for", "while")]):
        used = [
            name for each in loop.walk() if each is not op
            for name in each.operands if effects.is_buffer(name)
        ]  # fmt: skip
        apart = any(effects.used(name) & set(loop.arguments) for name in placed)
        if loop.name == "while" or apart or placed & set(loop.arguments):
            break
        if target in map(effects.root, used):
            break
        often *= effects.values.mean_turns(loop) or ATOMIC_SUMS_FEWEST
    return often if op.result not in _results_used(effects) else 0.0


def _time_in_turn(case: KernelCase, effects: Effects, op: Op, around: tuple[Op, ...]) -> float:
    """Return the share of its launch's time that L2 needs for the atomics on one element of global
    memory; 0 where data or a condition choose who has a part in it."""
    held, placed = effects.kernel.types.get(effects.root(op.operands[-1])), _placed(effects, op)
    chosen = any(map(effects.is_buffer, placed)) or any(each.name == "if" for each in around)
    if held is None or held.space != "global" or chosen or not case.launches or not case.time:
        return 0.0
    often = math.prod(_points(effects, around, kind, placed) for kind in ("launch", "for"))
    return often * ATOMIC_SUMS_EACH * case.launches / (case.time * sampled_share(case))


def _results_used(effects: Effects) -> frozenset[str]:
    """Return names of all values that an op takes."""
    ops = (op for op, _ in effects.kernel.nested)
    return frozenset(name for op in ops for names in (op.operands, *op.lists) for name in names)


def _private(effects: Effects, op: Op, around: tuple[Op, ...]) -> float:
    """Return how many numbers a block combines with an element of a part of a tensor in global
    memory, where data choose the element; 0 where the part is too large for shared memory, or has
    about as many elements."""
    held = effects.kernel.types.get(effects.root(op.operands[-1]))
    launch = next((each for each in around if each.name == "launch"), None)
    if held is None or held.space != "global" or held.extents is None or launch is None:
        return 0.0
    free = [
        extent for extent, index in zip(held.extents, op.listed)
        if effects.used(index) - set(launch.arguments)
    ]  # fmt: skip
    by_data = any(effects.is_buffer(name) for name in _placed(effects, op))
    part = math.prod(free)
    if not by_data or part * held.bits / 8 > ATOMIC_SUMS_HELD:
        return 0.0
    often = _points(effects, around, "parallel") * _points(effects, around, "for") / part
    return often if often >= ATOMIC_SUMS_FEWEST else 0.0


def _draft(
    case: KernelCase, op: Op, title: str, static: str, author: str, part: float = 1.0,
    busy: float = 0.0, alone: bool = False,
) -> Draft:  # fmt: skip
    """Return what the samples say of an atomic of which `part` goes; `busy` is the share of the
    time, 0 to 1, that L2 needs to do all that meet at an element. `alone`: a warp's own points
    meet there, so it waits at them, and nothing waits behind them elsewhere."""
    place = case.place(case.line(op.line), f"atomic {op.operands[-1][1:]}")
    cause = Cause(title, place, (Evidence("static", static),), author, _COMPILER)
    code = case.sampled
    where = case.at_lines(code, {op.line}) if code and op.line else []
    if code is None or not where:
        return cause.warning()
    taken = np.maximum(code.taken(code.rows(where)), code.waiting_for(where))
    seen = sampled(code, taken, "are at them, or wait for them")
    if busy >= ATOMIC_SUMS_BOUND and (left := reach.left(case, taken)) is not None:
        text = f"L2 does those on one element in turn: {percent(min(busy, 1), 0)} of the time"
        held_up = Saving(left.low * ATOMIC_SUMS_SURE, left.mid, left.high, samples=seen.samples)
        return cause.costs(held_up, Evidence("activities", text), seen)
    late = _held_up(case, code, where)
    if max(code.share(taken), code.share(late)) < COLD:
        return cause.ignored(", where it costs nothing", "Leave it: it takes no time.", seen)
    saving = eliminated(taken, code.whole, ATOMIC_SUMS_GO * part, ATOMIC_SUMS_SURE)
    others = eliminated(late, code.whole, ATOMIC_SUMS_LATE * part, ATOMIC_SUMS_SURE)
    if others.mid > saving.mid:
        wait = sampled(code, late, "wait at barriers of the loop for the warps that do them")
        return cause.costs(reach.as_told(case, others), seen, wait)
    return cause.costs(reach.as_told(case, saving) if alone else saving, seen)


def _held_up(case: KernelCase, code: KernelCode, where: Collection[int]) -> Weights:
    """Return the samples, by row, that wait at barriers of a loop in which only some warps of the
    block come to these instructions."""
    bars, late = code.named("BAR"), set[int]()
    for loop in loops_of(code):
        if any(bar in loop for bar in bars) and any(index in loop for index in where):
            some, _ = late_at(case, code, bars, loop)
            late |= {*loop} if not {*where}.isdisjoint(some) else set()
    products = code.waiting_for(code.named(*PRODUCTS))
    return np.maximum(code.taken(code.rows(late, ("barrier",))) - products, 0.0)


RULE = KernelRule("atomic-traffic", find)
