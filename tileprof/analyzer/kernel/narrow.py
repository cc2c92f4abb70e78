"""What narrow accesses cost whose lanes are side by side.

In: a kernel; accesses of less than 16 bytes a thread; how much memory is used.  Out: passes of
their requests, the share of the kernel's time that goes where each moves 16 bytes, and why that may
be nothing. The formulas are in `rules.narrow_access`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.kernel.global_memory import LINE, SECTOR, WIDEST, width_of, worked_out
from tileprof.analyzer.kernel.memory_use import MemoryUse
from tileprof.analyzer.kernel.queues import FULL, behind, passes_of
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import skipped
from tileprof.analyzer.machine.lanes import WARP

_COLD = 0.02
"""Of the time, below which a gain is that of another measurement."""
_LEAST_FULL = {4: 0.15, 8: 0.2}
"""By width in order, of the samples at them, below which the queue is not what they wait for: such
requests move as many bytes in a pass as wider ones. (An H200 had 0.1 of them at 4-byte loads of
rows that it left in shared memory, padded by a word, where as many more passes are those of shared
memory; and 0.37 where rows were only copied, and 16 bytes took 0.86 of the time.)"""
_NEAR_BY = 64
"""Instructions from an access to the next one of the same tile, at most."""
_ANSWER = ("long_scoreboard",)
_WIDE_PASSES = 1 + WARP * WIDEST / LINE
"""Of a request of 16 bytes a thread."""
_SURE = 0.25
"""Of what waits in the queue, what comes back at least: the rest waits for memory then. (An H200
got back 0.3 to 0.5 of it in three kernels.)"""


def passes_at(case: KernelCase, code: KernelCode, where: Collection[int]) -> dict[int, float]:
    """By access, the passes of a request."""
    known, held = worked_out(case), dict[int, float]()
    for index in where:
        lines = known[index].sectors * SECTOR / LINE if index in known else 0.0
        held[index] = max(1 + lines, passes_of(code.instructions[index]))
    return held


def why_harmless(
    code: KernelCode,
    passes: Mapping[int, float],
    checked: Weights,
    saving: Saving,
    use: MemoryUse | None,
) -> str:
    """Why there is nothing to gain, or nothing; `checked`: what `checks` found of the accesses."""
    if use and use.near:
        return "memory bandwidth is the limit"
    at = code.n(passes, (ISSUED, *FULL)) / code.whole
    if min(saving.mid, at + float(checked.sum()) / code.whole) < _COLD:
        return "these accesses take no time"
    in_order = [index for index in passes if passes[index] == passes_of(code.instructions[index])]
    width = min(width_of(code.instructions[index].opcode) for index in passes)
    if len(in_order) == len(passes) and at < _LEAST_FULL.get(width, 0.0):
        return "their queue is not full, and they move as many bytes per cycle as wider ones"
    return ""


def saved(
    code: KernelCode, passes: Mapping[int, float], checked: Weights, use: MemoryUse | None
) -> Saving:
    """What goes if each instruction moves 16 bytes, as far as memory has room."""
    parts = {i: width_of(code.instructions[i].opcode) / WIDEST for i in passes}
    gone = {i: max(0.0, passes[i] - _WIDE_PASSES * parts[i]) for i in passes}
    taken = behind(code, gone, passes)
    for index in passes:
        at = (1 - parts[index]) * code.taken(code.rows([index], (ISSUED, "lg_throttle")))
        taken = np.maximum(taken, at)
    own = float(checked.sum()) > float(taken.sum())
    taken = np.maximum(taken, checked)
    if use is None:
        return eliminated(taken, code.whole, sure=0.0)
    saving, room = eliminated(taken, code.whole, sure=_SURE), use.room
    if own:  # nobody stands behind what a warp does itself
        saving = replace(saving, rows=None)
    if saving.mid <= room:
        return saving
    high = max(room, min(saving.high, 1 - 1 / use.most))
    return Saving(min(saving.low, use.sure_room), room, high, samples=saving.samples)


def checks(code: KernelCode, where: Collection[int]) -> Weights:
    """By row, samples that go because an access checks its place once for all of its bytes.

    They are at what a warp does from one such access to the next one, if it branches there, but for
    answers that it waits for. Of those the part goes that has no access of its own any more.
    """
    guards = [branch for branch, over in skipped(code) if not code.n(over[1:], (ISSUED,))]
    taken = np.zeros(len(code.counts))
    for one, other in pairwise(sorted(where)):
        first, last = code.instructions[one], code.instructions[other]
        apart = first.depth != last.depth or other - one > _NEAR_BY
        if apart or first.opcode != last.opcode or not any(one < at < other for at in guards):
            continue
        part = 1 - width_of(last.opcode) / WIDEST
        between = range(one + 1, other + 1)
        waits = code.taken(code.rows(between, _ANSWER))
        taken = taken + part * (code.taken(code.rows(between)) - waits)
    return taken
