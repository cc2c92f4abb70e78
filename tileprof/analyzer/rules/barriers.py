"""Warps that wait at a barrier of their block for slower warps.

Static: barriers, and code between them that a branch lets some warps step over; two barriers with
nothing between that they could order; loops that give work to fewer threads than the block has,
or turn as often as each element says.
Dynamic: samples that wait at a barrier; how much of what warps do instead of waiting is in code
that not all run; samples of such loops.

The reference counts all samples of the reason `barrier`. On an H200 that is also the reason of
waits for products of warp groups, at `WARPGROUP.DEPBAR`; and `BAR.SYNC` itself issues at once, so
the wait stands at an instruction behind it. So here it is samples whose wait goes back to a `BAR`.

What is waited at barriers goes away as far as the late work can be dealt out to all warps: the
share that code which some step over has of all that is done on the way to the barrier. Where none
is found it is not known which warps are late, and no gain is stated. No instruction goes away,
so where schedulers issue in b of all cycles, it is 1 / b times as fast at most; where that is
next to nothing, so is what waits cost. Waits for memory on the way
make warps late by chance: then a barrier is no fault, and nothing is said of it, unless a block has
so many threads that there is next to nothing for each between barriers
(`machine_code/short_phases`).

Barriers around nothing but loads of global memory order nothing. Without them a warp goes on to its
next load, so of the waits there the part goes that is not as long for memory anyway.

A fragment of few elements is held by all warps alike, so that most do the work of others once more
(on an H200 eight warps that each computed all of a table made a kernel 2.98 times as long as when
each computed a part). With work for e of t threads in each turn, 1 - e / t of the loop's time goes.
Of several blocks on a multiprocessor one does what is left of the loop while others do the rest,
which waits for memory for the most part: together they take no more than the sum of the two, no
less than the longer one; the likeliest is taken halfway. Other code waits for its turn to issue,
for units, and at barriers as long as the loop keeps these busy: such waits go as well, as many as
the loop has of all that issues. Other code, and e / t of the loop, still issue: where schedulers
issue in b of all cycles, these are the least that is left of them. (None of nine such loops on an
H200 gained more than that leaves.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.late_warps import late_at, of_lines, of_turns
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.kernel.reach import as_told
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import shown, targets
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.needless import needless
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code import locks
from tileprof.analyzer.rules.machine_code.short_phases import short_phases
from tileprof.analyzer.rules.numbers.waiting import (
    BARRIERS_DEALT,
    BARRIERS_MOSTLY,
    BARRIERS_NOTABLE,
    BARRIERS_SKEWED,
    BARRIERS_SURE,
)
from tileprof.analyzer.tiles.tile_loops import NarrowLoop, narrow_loops

_CHANCE = (
    "long_scoreboard", "lg_throttle", "mio_throttle", "short_scoreboard", "tex_throttle",
    "warpgroup_arrive", "gmma", "membar",
)  # fmt: skip
"""Waits for memory and units, which warps have now longer, now shorter."""
_CROWDED = ("not_selected", "math_pipe_throttle", "dispatch_stall", "barrier")
"""Waits that are as long as others keep schedulers and units busy, or come late."""
_PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "QMMA", "IMMA")
_ORDERED = (
    "LD", "LDS", "LDSM", "LDG", "LDGSTS", "ST", "STS", "STSM", "STG", "ATOM", "ATOMS", "ATOMG",
    "RED", "REDG", "MEMBAR", "FENCE", "SYNCS", "HGMMA", "UTMALDG", "UTMASTG", "UBLKCP",
)  # fmt: skip
_LATE = (
    "Distribute the work of that line evenly over the warps of the block, move it after the "
    "barrier, or let only the warps that need its result wait (a named barrier, an mbarrier)."
)
_UNKNOWN = (
    "Use fewer barriers in the loop, or several independent blocks on a multiprocessor, so that"
    " one works while another waits. `tileprof run --instrument sample` shows which warps are late."
)
_DEAL = (
    "Let each iteration work on as many elements as there are threads ({}), in fewer "
    "iterations; or give the block no more threads than an iteration has elements."
)
_REPLICATED = (
    "A fragment with fewer elements than threads is replicated in all warps: a layout that "
    "distributes the loop's iterations over warps would divide the work."
)
_LONE = (
    "Remove the barriers: nothing that threads share is read or written between them, so"
    " each warp can continue with its next load."
)
_TWICE = "The second barrier orders nothing: remove it."
_COMPILER = "See which pass put the barrier there, and which accesses it orders."


def find(case: KernelCase) -> Iterator[Draft]:
    """Barriers that cost time, and those that order nothing."""
    code = case.code
    bars = code.named("BAR") if code else []
    if code is None:
        return
    narrow = [*locks.find(case, code)] or [*_narrow(case, code)]
    yield from narrow
    if twice := _twice(code, bars):
        yield _redundant(case, code, twice)
        bars = [each for each in bars if each not in twice]
    if not code.whole or not bars or narrow or _always_issues(code):
        return
    uneven = list(_imbalance(case, code, bars))
    lone = [each for each in needless(code) if each in bars]
    told = any(each.severity == "suggestion" for each in uneven)
    if found := list(_needless(case, code, [] if told else lone)):
        yield from found
    else:
        yield from uneven if told else list(short_phases(case, code)) or uneven


def _always_issues(code: KernelCode) -> bool:
    """Whether schedulers issue in nearly all cycles, as far as samples tell idle ones."""
    return code.n(idle=True) > 0 and busy_share(code) >= 1 - BARRIERS_NOTABLE


def _narrow(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Loops with work for some of the threads; those with as much are one fault."""
    alike = dict[tuple[int, int], list[NarrowLoop]]()
    for loop in narrow_loops(case.tiles, case.cuda):
        alike.setdefault((loop.elements, loop.threads), []).append(loop)
    for (elements, threads), loops in alike.items():
        lines = frozenset[int]().union(*(each.lines for each in loops))
        where = of_turns(case, code, lines)
        if (hot := code.hottest(of_lines(case, code, lines))) is None:
            continue
        which = f"{len(loops)} loops of" if len(loops) > 1 else "a loop of"
        turns = ", ".join(dict.fromkeys(str(each.turns) for each in loops))
        text = (
            f"{which} {turns} iterations: work for {elements} of {threads} threads in each,"
            " so that all"
            " warps compute the same, or wait"
        )
        title = f"a loop gives work to {elements} of {threads} threads"
        yield from _dealt(case, code, where, Draft(
            "warning", title, case.at(hot), (Evidence("static", text),),
            _DEAL.format(threads), _REPLICATED,
        ), 1 - elements / threads)  # fmt: skip


def _dealt(
    case: KernelCase, code: KernelCode, where: list[int], draft: Draft, part: float
) -> Iterator[Draft]:
    """What that costs; nothing is said where it is little."""
    if not code.whole:
        yield draft
        return
    taken = code.taken(code.rows(where))
    share = float(taken.sum()) / code.whole
    if part * share < BARRIERS_NOTABLE:
        return
    seen = Evidence("samples", f"{percent(share)} of the samples are in it", int(taken.sum()))
    kept = (1 - part) * share
    shared = (case.number("blocks_per_sm") or 1.0) * min(1.0, case.number("waves") or 1.0) >= 2
    hidden = HALFWAY * min(kept, 1 - share) if shared else 0.0
    saving = eliminated(taken, code.whole, part + hidden / share, BARRIERS_DEALT)
    rows = np.maximum(taken, _crowded(code, where))
    likely = (part + hidden / share) * float(rows.sum()) / code.whole
    mid = min(max(saving.mid, likely), LONGEST_SAVING)
    saving = replace(saving, mid=mid, high=max(mid, saving.high), rows=rows)
    left = busy_share(code) * (1 - part * _issued(code, where))
    yield replace(
        draft, severity="suggestion", evidence=(*draft.evidence, seen), saving=saving,
        most=1 / max(left, COLD),
    )  # fmt: skip


def _issued(code: KernelCode, where: list[int]) -> float:
    """Return the share of all issued instructions that these are, 0 to 1."""
    return code.n(where, (ISSUED,)) / code.issued if code.issued else 0.0


def _crowded(code: KernelCode, where: list[int]) -> Weights:
    """By row, samples of other code that waits for its turn, or for late warps: as many of them as
    the loop has of all that issues."""
    return np.asarray(_issued(code, where) * code.taken(code.rows(reasons=_CROWDED)))


def _imbalance(case: KernelCase, code: KernelCode, bars: list[int]) -> Iterator[Draft]:
    """At the barrier at which is waited most, with those of the same loop."""
    hot = max(bars, key=lambda each: float(_waits(code, [each]).sum()))
    way = loop_around(code, hot) or range(hot)
    taken = _waits(code, [each for each in bars if each in way or each == hot])
    share = float(taken.sum()) / code.whole
    late, static = late_at(case, code, bars, way)
    skew = _part(code, late, way, taken)
    if share < COLD or (share < BARRIERS_NOTABLE and skew < BARRIERS_SKEWED):
        return
    at = case.at(code.instructions[hot])
    text = f"{percent(share)} of the samples wait at a barrier"
    evidence = (Evidence("samples", text, int(taken.sum())),)
    if skew < BARRIERS_SKEWED:
        if _by_chance(code, way, share):
            return
        title = "warps wait for each other at a barrier"
        yield Draft("symptom", title, at, evidence, _UNKNOWN, _COMPILER)
        return
    last = code.hottest(late)
    line, at = shown(last), at if last is None else case.at(last)
    text = f"{percent(skew, 0)} of the work, without waits at barriers, is in such code"
    yield Draft(
        "suggestion", f"warps wait at a barrier for those that run {line}", at,
        (Evidence("static", static), *evidence, Evidence("samples", text)), _LATE, _COMPILER,
        as_told(case, eliminated(taken, code.whole, skew, BARRIERS_SURE)),
        most=1 / max(busy_share(code), COLD),
        confidence="medium" if skew >= BARRIERS_MOSTLY else "low",
    )  # fmt: skip


def _by_chance(code: KernelCode, way: range, share: float) -> bool:
    """Whether waits for memory or products on the way are as long as those at the barrier."""
    if any(code.instructions[each].name in _PRODUCTS for each in way):
        return True
    return code.n(way, _CHANCE) >= share * code.whole


def _waits(code: KernelCode, bars: list[int]) -> Weights:
    """By row, samples that wait at these barriers."""
    return code.waiting_for(bars, ("barrier",))


def _part(code: KernelCode, late: list[int], way: range, waits: Weights) -> float:
    """Of the samples on the way, waits at the barrier aside, those that some warps step over."""
    done = code.taken(code.rows(way)) - np.where(np.isin(code.at, way), waits, 0)
    whole = float(done.sum())
    return float(done[np.isin(code.at, late)].sum()) / whole if whole else 0.0


def _twice(code: KernelCode, bars: list[int]) -> list[int]:
    """Barriers behind the same one, with nothing between that the two could order."""
    ends = {*targets(code), *targets(code).values()}
    return [
        second
        for first, second in pairwise(bars)
        if code.instructions[first].text == code.instructions[second].text
        and not ends & set(range(first, second + 1))
        and not any(code.instructions[i].name in _ORDERED for i in range(first + 1, second))
    ]


def _redundant(case: KernelCase, code: KernelCode, twice: list[int]) -> Draft:
    place = case.at(code.instructions[twice[0]])
    text = "a barrier directly after another one, with no access to memory between them"
    static, title = Evidence("static", text), "a barrier that orders nothing"
    cause = Cause(title, place, (static,), _TWICE, _COMPILER)
    if not code.whole:
        return cause.warning()
    taken = _waits(code, twice)
    seen = sampled(code, taken, "wait there")
    if code.share(taken) < COLD:
        return cause.ignored(", and costs nothing", "Leave it: no warp waits there.", seen)
    # Who does not wait here is the sooner at its next wait: no more than these samples goes.
    return cause.costs(as_told(case, eliminated(taken, code.whole)), seen, confidence="high")


def _needless(case: KernelCase, code: KernelCode, lone: list[int]) -> Iterator[Draft]:
    """Barriers around loads of global memory alone: who waits there would wait for loads too."""
    if not lone:
        return
    hot = max(lone, key=lambda each: float(_waits(code, [each]).sum()))
    # Of many barriers none may have waits enough to be told whose they are.
    part = len(lone) / len(code.named("BAR"))
    taken = np.maximum(_waits(code, lone), part * code.taken(code.rows(reasons=("barrier",))))
    if code.whole and code.share(taken) < COLD:
        return
    text = (
        f"{len(lone)} barriers with no access to shared memory, and no store, since the one before"
    )
    static, title = Evidence("static", text), "barriers that order nothing"
    cause = Cause(title, case.at(code.instructions[hot]), (static,), _LONE, _COMPILER)
    loads = code.n(reasons=_CHANCE) / (code.whole - float(taken.sum()) or 1.0)
    saving = eliminated(taken, code.whole, max(0.0, 1 - loads), sure=0.0)
    yield cause.costs(replace(saving, rows=None), sampled(code, taken, "wait there"))


RULE = KernelRule("barrier-imbalance", find, ("samples", "counters"))
