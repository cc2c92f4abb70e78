"""What accesses cost whose lanes lie apart in global memory.

In: a kernel; its scattered accesses, and the sectors that each takes for one that it needs.  Out:
the share of the kernel's time that goes when they need what they take.

Where nothing tells what the kernel's work takes, (1 - 1 / w) of what w times the sectors took goes:
of time in the queue, of what stands behind it, and of waits for an answer, those as far as traffic
made them long. Where the bytes that it has to move are known, they say what is left, so all that
waits at such accesses, for them and behind them is their doing: on an H200 three kernels in which
that was 0.8 of the samples and more came, in order, to what kernels reach that move as much, also
where w was less than that. Loads in order, and stores that a block leaves behind, go by the same
ways as scattered ones: of their waits that part counts that sectors for nothing are of all sectors
that were asked for. (An H200 that took an index in order for each row, and its row a column a lane,
waited at the index for a sixth of its time.)

Rows that are taken by their numbers in a tensor too large for a cache come as often as they are
asked for. (Sums of 20 of a million rows for each sample were as fast as that without the defect at
0.77 of the roof on an H200, and at 0.59 by the bytes of the table.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving, Weights, drawn, eliminated
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import ACCESSES, LOADS, STORES, width_of
from tileprof.analyzer.kernel.queues import FULL, behind, of_ways
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.kernels import SCATTERED_SURE, SCATTERED_SURE_OF_WORK
from tileprof.analyzer.numbers.shared import L2_KEEPS
from tileprof.analyzer.tiles import work
from tileprof.analyzer.tiles.gathers import asked_by_number

ANSWER = ("long_scoreboard",)
"""Why a warp waits for a load."""
_LEFT = ("drain",)
"""Why a warp waits that has done all but for its stores."""


@dataclass(frozen=True, slots=True)
class Scattered:
    """An instruction, and how many sectors it takes for each that it needs."""

    index: int
    ways: float


def by_samples(
    case: KernelCase, code: KernelCode, scattered: list[Scattered], use: float | None
) -> Saving:
    """`use` is the share of what memory gives, if that was counted: a part of waits for answers."""
    ways = {each.index: each.ways for each in scattered}
    gone, held = of_ways(code, ways)
    everything = {each.index: 1.0 for each in scattered}
    queue, answers = _at(code, everything)
    full = np.maximum(queue, behind(code, held, held)) + answers
    others = code.waiting_for(code.named(*LOADS, *STORES), ANSWER) + code.taken(
        code.rows(reasons=_LEFT)
    )
    full = np.maximum(full, _for_nothing(code, ways) * others)
    if use is None and (left := reach.left(case, full)) is not None:
        found = eliminated(full, code.whole, sure=SCATTERED_SURE_OF_WORK)
        more = _by_number(case)
        return found if more == 1 else _of_work(found, left, more)
    queue, answers = _at(code, {index: 1 - 1 / many for index, many in ways.items()})
    queue = np.maximum(queue, behind(code, gone, held))
    taken: Weights = queue + answers * (1.0 if use is None else min(use, 1.0))
    whole = float(taken.sum())
    sure = (
        SCATTERED_SURE
        if use is not None or not whole
        else SCATTERED_SURE * float(queue.sum()) / whole
    )
    found = eliminated(taken, code.whole, sure=sure)
    if use is not None:
        return found
    high = max(found.high, eliminated(np.maximum(taken, full), code.whole).high)
    return Saving(found.low, found.mid, high, taken, found.samples)


def _by_number(case: KernelCase) -> float:
    """How many times the bytes of its tensors a kernel moves, as it takes rows by their numbers."""
    tensors = work.tensor_bytes(case.tiles)
    if not tensors or case.roofs.needed_bytes < tensors * case.launches:
        return 1.0
    moved, parameters = tensors, case.tiles.parameters
    for name, asked in asked_by_number(case.tiles).items():
        kind = parameters[name].type if name in parameters else None
        held = math.prod(kind.extents) * kind.bits / 8 if kind and kind.extents else 0.0
        if held > L2_KEEPS:
            moved += asked - held
    return moved / tensors


def _of_work(found: Saving, left: Saving, more: float) -> Saving:
    """What goes where work is so many times what `left` was reckoned with."""
    low, mid, high = (max(0.0, 1 - (1 - each) * more) for each in (left.low, left.mid, left.high))
    came = drawn(found, Saving(low, mid, max(high, left.high)))
    return Saving(came.low, came.mid, came.high, samples=found.samples)


def _for_nothing(code: KernelCode, ways: Mapping[int, float]) -> float:
    """Of the sectors that were asked for, the part that was not needed."""
    asked, needed = 0.0, 0.0
    for index in code.named(*ACCESSES):
        width = width_of(code.instructions[index].opcode) * code.n([index], (ISSUED,))
        asked, needed = asked + width * max(ways.get(index, 1.0), 1.0), needed + width
    return 1 - needed / asked if asked else 0.0


def _at(code: KernelCode, parts: dict[int, float]) -> tuple[Weights, Weights]:
    """Of what is at accesses these parts: in the queue, and waiting for their answers.

    A store has no answer: what waits for it waits until it has left its registers.
    """
    queue, answers = np.zeros(len(code.counts)), np.zeros(len(code.counts))
    for index, part in parts.items():
        queue = queue + part * code.taken(code.rows([index], FULL))
        waits = part * code.waiting_for([index], ANSWER)
        if code.instructions[index].name in STORES:
            queue = queue + waits
        else:
            answers = answers + waits
    return queue, answers


def by_traffic(case: KernelCase, wasted: float, use: float) -> Saving:
    """Sectors that L1 has are no traffic behind it; what is left of them is at least the rest."""
    missed = 1 - (case.rate("l1_hit_rate") or 0.0)
    beyond = max(0.0, 1 - (1 - wasted) / missed) if missed else 0.0
    return Saving(0.5 * beyond * use, beyond * use, max(beyond * use, wasted * use))


def rate_of(case: KernelCase) -> float:
    """Sectors of a launch's requests by those that its widest access needs; 0: not counted."""
    code, found = case.code, [0.0]
    for names, name in ((LOADS, "sectors_per_load"), (STORES, "sectors_per_store")):
        rate = case.rate(name)
        widths = [width_of(code.instructions[i].opcode) for i in code.named(*names)] if code else []
        if rate:
            found.append(rate / max(widths, default=16))
    return max(found)
