"""What narrow accesses cost whose lanes are side by side.

In: a kernel; accesses of less than 16 bytes a thread; how much memory is used.  Out: passes of
their requests, the share of the kernel's time that goes where each moves 16 bytes, and why that may
be nothing. The formulas are in `rules.narrow_access`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import ACCESSES, width_of, worked_out
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.kernel.memory_use import MemoryUse
from tileprof.analyzer.kernel.queues import FULL, behind, passes_of
from tileprof.analyzer.kernel.threads.per_thread import made_for
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import skipped
from tileprof.analyzer.numbers.kernels import (
    NARROW_ALIKE,
    NARROW_BESIDE,
    NARROW_BUSY,
    NARROW_LEAST_FULL,
    NARROW_MOST,
    NARROW_NEAR_BY,
    NARROW_SURE,
    NARROW_WIDE_PASSES,
)
from tileprof.analyzer.numbers.shared import COOL, HALFWAY, LINE, SECTOR, WIDEST

_ANSWER = ("long_scoreboard",)
_COUNTS = (
    "IMAD", "IADD3", "VIADD", "LEA", "SHF", "LOP3", "PRMT", "ISETP", "VIMNMX", "VIADDMNMX", "SEL",
    "I2FP", "I2F", "UIADD3", "ULEA", "UIMAD", "ULOP3", "USHF", "MOV", "CS2R", "LDC", "ULDC",
    "PLOP3", "P2R", "R2P", "BRA",
)  # fmt: skip
"""Opcodes of what stands around an access: integers, moves, conditions."""


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
    beside: Weights,
) -> str:
    """Why there is nothing to gain, or nothing.

    Args:
        code: of the kernel.
        passes: by access.
        checked: what `checks` found of the accesses.
        saving: what goes with them.
        use: of memory.
        beside: samples that go with them elsewhere.
    """
    if use and use.near:
        return "memory bandwidth is the limit"
    if float(beside.sum()) >= NARROW_BESIDE * code.whole:
        return ""
    at = code.n(passes, (ISSUED, *FULL)) / code.whole
    if min(saving.mid, at + float(checked.sum()) / code.whole) < COOL:
        return "these accesses take no time"
    alike = {index: NARROW_ALIKE * passes_of(code.instructions[index]) for index in passes}
    in_order = [index for index, most in alike.items() if passes[index] <= most]
    width = min(width_of(code.instructions[index].opcode) for index in passes)
    if len(in_order) == len(passes) and at < NARROW_LEAST_FULL.get(width, 0.0):
        return "their queue is not full, and they move as many bytes per cycle as wider ones"
    return ""


def saved(
    case: KernelCase, code: KernelCode, passes: Mapping[int, float], checked: Weights,
    use: MemoryUse | None, made: Weights, late: Weights,
) -> Saving:  # fmt: skip
    """What goes if each instruction moves 16 bytes, as far as memory has room.

    Args:
        case: of which kernel.
        code: of it.
        passes: by access.
        checked: what `checks` found of them.
        use: of memory; None where it is not known.
        made: samples of what makes their addresses, and waits of warps that have too few bytes
            under way, as far as they go.
        late: samples that wait for one access after the other, as far as they go.
    """
    parts = {i: width_of(code.instructions[i].opcode) / WIDEST for i in passes}
    gone = {i: max(0.0, passes[i] - NARROW_WIDE_PASSES * parts[i]) for i in passes}
    taken = np.maximum(behind(code, gone, passes), late)
    # A queue that gathers fill, whose lanes nobody knows, stays full without these.
    gathers = {*code.named(*ACCESSES)} - known.keys() if (known := worked_out(case)) else set()
    issued = code.n(passes, (ISSUED,))
    theirs = issued / max(issued + code.n(gathers - passes.keys(), (ISSUED,)), 1)
    for index in passes:
        at = code.taken(code.rows([index], (ISSUED,)))
        at += theirs * code.taken(code.rows([index], ("lg_throttle",)))
        taken = np.maximum(taken, (1 - parts[index]) * at)
    own = max(float(each.sum()) for each in (checked, made)) > float(taken.sum())
    taken = np.maximum(taken, np.maximum(checked, made))
    if use is None:
        return eliminated(taken, code.whole, sure=0.0)
    saving, room = eliminated(taken, code.whole, sure=NARROW_SURE), use.room
    if own:  # nobody stands behind what a warp does itself, or waits for alone
        left = reach.left(case, taken) or saving
        mid = min(saving.mid, left.mid)
        high = max(mid, min(left.high, NARROW_MOST * mid))
        saving = Saving(min(saving.low, mid), mid, high, samples=saving.samples)
    if saving.mid <= room:
        return saving
    high = max(room, min(saving.high, 1 - 1 / use.most))
    return Saving(min(saving.low, use.sure_room), room, high, samples=saving.samples)


def turns_saved(
    case: KernelCase, code: KernelCode, where: Collection[int], use: MemoryUse
) -> Saving | None:
    """Return what goes where instructions are what a kernel waits for, or None.

    Of the instructions with integers on lines with such accesses that work out where these go, and
    what branches around that ask for, the part goes that wider accesses do without. None where
    schedulers have issue slots left.
    """
    issued = code.n(where, (ISSUED,))
    if busy_share(code) < NARROW_BUSY or not issued:
        return None
    moved = sum(width_of(code.instructions[i].opcode) * code.n([i], (ISSUED,)) for i in where)
    places = (case.user_line(code.instructions[index].place) for index in where)
    counts = case.at_lines(code, {place.line for place in places if place}, code.named(*_COUNTS))
    made = {*where, *made_for(code, where)}
    guards = [branch for branch, over in skipped(code) if not made.isdisjoint(over)]
    counts = sorted({*counts} & {*made, *guards, *made_for(code, guards)})
    part = code.n(counts, (ISSUED,)) / code.issued * (1 - moved / issued / WIDEST)
    mid = min(busy_share(code) * part, use.room)
    return Saving(HALFWAY * mid, mid, max(mid, min(NARROW_MOST * part, 1 - 1 / use.most)))


def checks(code: KernelCode, where: Collection[int]) -> Weights:
    """By row, samples that go because an access checks its place once for all of its bytes.

    They are at what a warp does from one such access to the next one, if it branches there, but for
    answers that it waits for. Of those the part goes that has no access of its own any more.
    """
    guards = [branch for branch, over in skipped(code) if not code.n(over[1:], (ISSUED,))]
    taken = np.zeros(len(code.counts))
    for one, other in pairwise(sorted(where)):
        first, last = code.instructions[one], code.instructions[other]
        apart = first.depth != last.depth or other - one > NARROW_NEAR_BY
        if apart or first.opcode != last.opcode or not any(one < at < other for at in guards):
            continue
        part = 1 - width_of(last.opcode) / WIDEST
        between = range(one + 1, other + 1)
        waits = code.taken(code.rows(between, _ANSWER))
        taken = taken + part * (code.taken(code.rows(between)) - waits)
    return taken
