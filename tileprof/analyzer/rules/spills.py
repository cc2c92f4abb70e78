"""Registers spilled to memory: costly in a hot loop, harmless on a path that is never taken.

Static: loads and stores of local memory in the code. Dynamic: samples at them, of what waits for
them, and of what else waits for a place in the queue that they fill. Nearly all of that time comes
back: on an H200 spills that took 0.91 of a kernel's samples made it 9.0 times as long as without.

Barriers and products of warp groups are waited for by warps that were late by spills as well: that
time goes in the same proportion as all other. In a loop that spills, products wait for one another:
sums have to be complete before they are stored. So likely other work covers all of these waits. At
most, all waits go in proportion: a kernel that keeps values in memory has fewer warps, or smaller
tiles, than it could.

Where a multiprocessor has registers left for each thread of as many blocks, a bound makes the
kernel spill that brings nothing: what spills cost then comes before what other causes take.

Where registers leave room for few warps, and it is known what the work takes, waits for results at
which nobody issues likely go as well: with as many registers a thread as spilled, there is nobody
else to issue, and what is left of a thread's registers takes one value after the other. Where
spills are not the main of what is waited for, that part of those waits counts that they are of it:
a kernel that fills all registers and spills a few waits for its loads, not for want of registers.
Where they are less than half of that, no further wait is taken to be theirs. And where a loop with
spills loads from global memory as well, part of those waits is what it would wait for its loads:
then little of the gain is sure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.spilled import spill_places, spill_samples
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.numbers.shared import (
    COLD,
    FEW_THREADS,
    HALFWAY,
    MOST_REGISTERS,
    REGISTERS,
    REGISTERS_STEP,
    SPILLS_COME_BACK,
)
from tileprof.analyzer.rules.numbers.work import SPILLS_COVERING, SPILLS_MAIN, SPILLS_SURE
from tileprof.errors import Location

_LATENCY = ("long_scoreboard", "lg_throttle", "short_scoreboard", "wait")
_TOGETHER = ("barrier", "warpgroup_arrive", "gmma")
"""Waits for warps that come late, or for products that were begun late."""
_IGNORED = "Leave it: the spills are on a path that hardly runs."
_COMPILER = (
    "The allocator ran out of registers: see which values are alive across the loop, and whether"
    " the bound on registers is one that the launch needs."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Spills in the code of a kernel."""
    code = case.code
    spills = spill_places(code) if code else []
    if code is None or not spills:
        return
    place, static = _place(case, code, spills), _static(case, code, spills)
    cause = Cause("registers are spilled", place, (static,), _advice(case), _COMPILER)
    if not code.whole:
        yield cause.warning()
        return
    taken = spill_samples(code)
    seen = sampled(code, taken, "are at them or wait for them")
    if code.share(taken) < COLD:
        yield cause.ignored(" where it costs nothing", _IGNORED, seen)
        return
    hot = replace(cause, title=f"{cause.title} where it costs time")
    yield hot.costs(_saving(case, code, taken), seen, confidence="high", known=_has_room(case))


def _has_room(case: KernelCase) -> bool:
    """Whether threads could have more registers with as many blocks on a multiprocessor."""
    launch, blocks = launch_of(case), case.number("blocks_per_sm") or 0
    registers = case.number("registers") or 0
    each = min(registers + REGISTERS_STEP, MOST_REGISTERS)
    return (
        launch is not None and 0 < registers < each
        and each * launch.threads * max(blocks, 1) <= REGISTERS
    )  # fmt: skip


def _saving(case: KernelCase, code: KernelCode, taken: Weights) -> Saving:
    """What comes back, with waits for others as late as the spills made them."""
    share = float(taken.sum()) / code.whole
    together = np.maximum(taken, share * code.taken(code.rows(reasons=_TOGETHER)))
    sure = SPILLS_COVERING if _covers(code) else SPILLS_SURE
    least = eliminated(together, code.whole, SPILLS_COME_BACK, sure).low
    main = min(1.0, share / SPILLS_MAIN)
    waits = np.maximum(_exposed(case, code), _serial(code))
    together = np.maximum(together, main * waits)
    likely = eliminated(together, code.whole, SPILLS_COME_BACK, SPILLS_SURE)
    waits = np.maximum(taken, share * (code.taken(code.rows()) - code.taken(_working(code))))
    most = eliminated(np.maximum(waits, together), code.whole)
    found = Saving(least, likely.mid, max(likely.high, most.high), likely.rows, likely.samples)
    return found if main >= HALFWAY else reach.as_told(case, found)


def _covers(code: KernelCode) -> bool:
    """Whether loops with spills load from global memory too: those waits are left without."""
    return not _loops(code).isdisjoint(code.named("LDG", "LDGSTS"))


def _serial(code: KernelCode) -> Weights:
    """Waits for products in loops with spills: sums that are stored have to be complete."""
    waits = code.waiting_for(code.named(*PRODUCTS), _TOGETHER)
    return np.where(code.rows(_loops(code)), waits, 0.0)


def _loops(code: KernelCode) -> set[int]:
    """Return the places of all instructions in loops with spills."""
    loops = {loop_around(code, index) for index in spill_places(code)}
    return {index for loop in loops if loop for index in loop}


def _exposed(case: KernelCase, code: KernelCode) -> Weights:
    """Waits for results that more warps would cover, which registers leave no room for."""
    launch, blocks = launch_of(case), case.number("blocks_per_sm") or 0
    threads = launch.threads if launch else FEW_THREADS
    each = (case.number("registers") or 0) * threads
    full = each * (blocks + 1) > REGISTERS and blocks * threads < FEW_THREADS
    rows = code.rows(reasons=_LATENCY)
    waits = code.taken(rows)
    if not full or not waits.any() or reach.left(case) is None:
        return np.zeros(len(waits))
    return waits * min(1.0, code.n(reasons=_LATENCY, idle=True) / float(waits.sum()))


def _working(code: KernelCode) -> npt.NDArray[np.bool_]:
    return code.rows(reasons=(ISSUED,))


def _place(case: KernelCase, code: KernelCode, spills: list[int]) -> Place:
    """The hottest spill of the line whose spills, and waits for them, have the most samples."""
    lines = dict[Location | None, list[int]]()
    for index in spills:
        lines.setdefault(case.user_line(code.instructions[index].place), []).append(index)

    def cost(where: Collection[int]) -> float:
        return code.n(where) + float(code.waiting_for(where).sum())

    hot = code.hottest(max(lines.values(), key=cost))
    assert hot is not None
    return case.at(hot)


def _static(case: KernelCase, code: KernelCode, spills: list[int]) -> Evidence:
    looped = sum(code.instructions[index].depth > 0 for index in spills)
    registers = case.number("registers")
    held = f"; {registers:.0f} registers per thread" if registers else ""
    text = f"{len(spills)} loads and stores of local memory, {looped} of them in loops{held}"
    return Evidence("static", text)


def _advice(case: KernelCase) -> str:
    registers = case.number("registers") or 0
    if registers >= MOST_REGISTERS:
        return (
            "Each thread has all 255 registers: keep less in them, by a smaller tile or by more"
            " threads per block."
        )
    if _has_room(case):
        return (
            "Raise the bound on registers (Triton: `maxnreg`; CUDA: `__launch_bounds__`), or leave"
            " it out: a multiprocessor has room for more with as many blocks."
        )
    return (
        "Give each thread more registers (a higher bound, fewer blocks per multiprocessor), or"
        " keep less in them: a smaller tile, or more threads per block."
    )


RULE = KernelRule("spill-hot", find)
