"""Loops of a tile program that leave most threads of a block idle, or run serially.

Static: a parallel loop of fewer elements than the block has threads, or a serial loop around one
whose turns are independent (`tiles/thin_loops`). Dynamic: samples at its lines.

Threads without work take registers, and places among the warps of a multiprocessor: where bytes
bound a kernel, fewer of them are under way. A smaller block, or a larger tile, gives these places
back, so at most their part of the time goes, and no more than the work leaves (`reach`); warps
that others hide already cost nothing, so likely half of that. Where all blocks run at once anyway,
nobody waits for places.

Turns in series wait for their loads, and for their stores, one after the other. Of these samples
the part goes that turns at a time, n, save: 1 - 1/n; of the time of the warps that work, as others
only wait for them (`working_warps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.threads.working_warps import factor_of
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import (
    REDUNDANT_SURE,
    THIN_WORK_IDLE,
    THIN_WORK_NOTABLE,
)
from tileprof.analyzer.tiles.contractions import contractions
from tileprof.analyzer.tiles.thin_loops import Thin, thin_loops

_SIDE_BY_SIDE = (
    "Make it an axis of the `T.Parallel` inside of it: its iterations do not depend on one another."
)
_FEWER = "Launch blocks of fewer threads, or give each a larger tile, so that each has work."


def idle_threads(case: KernelCase) -> Iterator[Draft]:
    """All loops of fewer elements than threads together, as the one that samples see most."""
    code = case.sampled
    found = [each for each in thin_loops(case.tiles) if each.idle >= THIN_WORK_IDLE]
    if code is None or not found or code.named(*MATRIX):
        return
    worst = max(found, key=lambda each: code.n(case.at_lines(code, each.lines)) * each.idle)
    lines = frozenset[int]().union(*(each.lines for each in found if each.idle >= worst.idle))
    taken = code.taken(code.rows(case.at_lines(code, lines)))
    left, launch = reach.left(case, worst.idle * taken), launch_of(case)
    if left is None or code.share(taken) < THIN_WORK_NOTABLE:
        return
    text = f"a loop of {worst.elements} elements, for blocks of {worst.threads} threads"
    title = f"{percent(worst.idle, 0)} of the threads have no element to work on in a loop"
    cause = Cause(title, _place(case, worst), (Evidence("static", text),), _FEWER)
    seen = sampled(code, taken, "are in it")
    high = min(worst.idle, left.high) * code.share(taken)
    mid = HALFWAY * min(worst.idle, left.mid) * code.share(taken)
    if mid < COLD or (launch is not None and launch.waves < 1):
        leave = (
            "Leave it: warps that have work keep the memory busy, or no block waits for a place."
        )
        yield cause.ignored(", where it costs nothing", leave, seen)
        return
    yield cause.costs(Saving(HALFWAY * mid, mid, high), seen)


def _find(case: KernelCase) -> Iterator[Draft]:
    code = case.sampled
    products = {id(each.loop) for each in contractions(case.tiles)}
    for each in thin_loops(case.tiles):
        if code is None or each.loop is None or id(each.loop) in products:
            continue
        where = case.at_lines(code, each.lines)
        taken = code.taken(code.rows(where))
        if code.share(taken) < THIN_WORK_NOTABLE:
            continue
        text = (
            f"{each.turns} turns of `{each.loop.arguments[0][1:]}` could be done at a time by"
            f" {each.threads} threads, of which a turn gives work for {each.elements} elements"
        )
        title = "independent iterations of a loop run one after the other"
        cause = Cause(title, _place(case, each), (Evidence("static", text),),
                      _SIDE_BY_SIDE)  # fmt: skip
        seen = sampled(code, taken, "are in it")
        saving = eliminated(taken, code.whole, 1 - 1 / each.turns, REDUNDANT_SURE)
        yield cause.costs(_of_working(saving, factor_of(code, where)), seen)


def _of_working(saving: Saving, factor: float) -> Saving:
    """Return the saving as a share of the time of warps that work, not of all warps' samples."""
    low, mid, high = (
        min(factor * each, LONGEST_SAVING) for each in (saving.low, saving.mid, saving.high)
    )
    return replace(saving, low=low, mid=mid, high=high)


def _place(case: KernelCase, loop: Thin) -> Place:
    return case.place(case.line((loop.loop or loop.op).line))


RULE = KernelRule("serial-work", _find)
"""About independent turns; threads without an element are `wasted-lanes`."""
