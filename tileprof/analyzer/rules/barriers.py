"""Warps that wait at a barrier of their block for others, which arrive late.

Static: barriers, and code between them that a branch lets some warps step over; two barriers with
nothing between that they could order. Dynamic: samples that wait at a barrier; how much of what
warps do instead of waiting is in code that not all run.

The reference counts all samples of the reason `barrier`. On an H200 that is also the reason of
waits for products of warp groups, at `WARPGROUP.DEPBAR`; and `BAR.SYNC` itself issues at once, so
the wait stands at an instruction behind it. So here it is samples whose wait goes back to a `BAR`.

What is waited at barriers goes away as far as the late work can be dealt out to all warps: the
share that code which some step over has of all that is done on the way to the barrier. Where none
is found it is not known who is late, and no number is told. No instruction goes away, so where
schedulers issue in b of all cycles, it is 1 / b times as fast at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import Instruction, KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.jumps import loop_around, shown, skipped, targets
from tileprof.analyzer.launches import busy_share

__all__ = ["RULE"]

_COLD = 0.01
_NOTABLE = 0.05
"""Of the samples: below, barriers whose late warps are not known are not told."""
_SKEWED = 0.1
"""Of what is done, in code that not all warps run, from where these are who is late."""
_MOSTLY = 0.5
_ALL = 0.99
"""Of the warps at a branch, from where all go the same way."""
_SURE = 0.25
"""Of the likely gain: whether the late work can be dealt out, samples do not say."""
_ORDERED = (
    "LD", "LDS", "LDSM", "LDG", "LDGSTS", "ST", "STS", "STSM", "STG", "ATOM", "ATOMS", "ATOMG",
    "RED", "REDG", "MEMBAR", "FENCE", "SYNCS", "HGMMA", "UTMALDG", "UTMASTG", "UBLKCP",
)  # fmt: skip
_LATE = (
    "Deal the work of that line out to all warps of the block, move it behind the barrier, or let"
    " only those wait that need its result (a named barrier, an mbarrier)."
)
_UNKNOWN = (
    "Have fewer barriers in the loop, or several independent blocks on a multiprocessor, so that"
    " one works while another waits. `tileprof run --instrument sample` tells which warps are late."
)
_TWICE = "The second barrier orders nothing: leave it out."
_COMPILER = "See which pass put the barrier there, and which accesses it orders."


def find(case: KernelCase) -> Iterator[Draft]:
    """Barriers that cost time, and those that order nothing."""
    code = case.code
    bars = code.named("BAR") if code else []
    if code is None or not bars:
        return
    if twice := _twice(code, bars):
        yield _redundant(case, code, twice)
        bars = [each for each in bars if each not in twice]
    if code.whole and bars:
        yield from _imbalance(case, code, bars)


def _imbalance(case: KernelCase, code: KernelCode, bars: list[int]) -> Iterator[Draft]:
    """At the barrier at which is waited most, with those of the same loop."""
    hot = max(bars, key=lambda each: float(_waits(code, [each]).sum()))
    way = loop_around(code, hot) or range(hot)
    taken = _waits(code, [each for each in bars if each in way or each == hot])
    share = float(taken.sum()) / code.whole
    late = _late(code, bars, way)
    skew = _part(code, late, way, taken)
    if share < _COLD or (share < _NOTABLE and skew < _SKEWED):
        return
    at = _place(case, code.instructions[hot])
    text = f"{percent(share)} of the samples wait at a barrier"
    evidence = (Evidence("samples", text, int(taken.sum())),)
    if skew < _SKEWED:
        title = "warps wait for each other at a barrier"
        yield Draft("symptom", title, at, evidence, _UNKNOWN, _COMPILER)
        return
    line = shown(code.hottest(late))
    static = Evidence("static", f"a branch lets some warps of the block step over {line}")
    text = f"{percent(skew, 0)} of what is done, waits at barriers aside, is in such code"
    yield Draft(
        "suggestion", f"warps wait at a barrier for those that run {line}", at,
        (static, *evidence, Evidence("samples", text)), _LATE, _COMPILER,
        eliminated(taken, code.whole, skew, _SURE), most=1 / max(busy_share(code), 0.01),
        confidence="medium" if skew >= _MOSTLY else "low",
    )  # fmt: skip


def _waits(code: KernelCode, bars: list[int]) -> Weights:
    """By row, samples that wait at these barriers."""
    return code.waiting_for(bars, ("barrier",))


def _place(case: KernelCase, at: Instruction) -> Place:
    return case.place(case.user_line(at.place), case.op_at(at.place), (at.offset, at.offset))


def _late(code: KernelCode, bars: list[int], way: range) -> list[int]:
    """Instructions on the way to a barrier that some warps step over."""
    found = set[int]()
    for branch, stepped in skipped(code):
        if not any(bar in stepped for bar in bars) and not _by_all(code, branch, stepped):
            found.update(each for each in stepped if each in way)
    return sorted(found)


def _by_all(code: KernelCode, branch: int, stepped: range) -> bool:
    """Whether counts say that all warps run it, or none."""
    came, went = (code.executed([each], "executions") for each in (branch, stepped[0]))
    return bool(came) and went is not None and not 0 < went < _ALL * (came or 0)


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
    place = _place(case, code.instructions[twice[0]])
    text = "a barrier behind the same barrier, with no access to memory between"
    static, title = Evidence("static", text), "a barrier that orders nothing"
    if not code.whole:
        return Draft("warning", title, place, (static,), _TWICE, _COMPILER)
    taken = _waits(code, twice)
    share = float(taken.sum()) / code.whole
    text = f"{percent(share)} of the samples wait there"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share < _COLD:
        return Draft("ignore", f"{title}, and costs nothing", place, evidence,
                     "Leave it: nobody waits there.", confidence="high")  # fmt: skip
    return Draft("suggestion", title, place, evidence, _TWICE, _COMPILER,
                 eliminated(taken, code.whole), confidence="high")  # fmt: skip


RULE = KernelRule("barrier-imbalance", find, ("samples", "counters"))
