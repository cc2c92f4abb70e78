"""Accesses to shared memory whose lanes meet in one bank, so that they go one after the other.

Static: what the compiler derived from the layout ("8-way bank conflict"). Dynamic: samples at
accesses to shared memory whose queue is full, or what waits for them; passes through shared memory
beside those that would do, by instruction or by launch. Of an access of w passes where one would do
(1 - 1 / w) of its time goes. Without any of that, much waiting for shared memory is a symptom:
samples cannot tell conflicts from many accesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode, same_line
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.errors import Location

__all__ = ["RULE"]

_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_QUEUE = ("mio_throttle", "short_scoreboard")
_COLD = 0.01
"""Of a kernel's samples, below which conflicts cost nothing."""
_MUCH = 0.4
"""Of a kernel's samples, from which on waits for shared memory are told without a cause."""
_LEAST = 2.0
"""Passes where one would do."""
_Told: TypeAlias = tuple[float, Location | None]
"""Ways, and where."""
_WAYS = re.compile(r"(\d+)-way bank conflict")
_ADVICE = (
    "Let lanes of a warp touch different banks: leave the buffer's layout to the compiler (no"
    " annotation), pad its rows by 16 bytes, or let the lanes go along its last dimension."
)
_COUNT_THEM = (
    "See whether its lanes meet in a bank: `tileprof run --metrics instructions SCRIPT` counts the"
    " passes of each access. If so, pad or swizzle the buffer; if not, move more bytes by each."
)
_COMPILER = (
    "The layout of this buffer was fixed before the access was costed: see which op fixed it, and"
    " whether a swizzle serves both."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Conflicts that the layout, or counts, tell of; else waits for shared memory."""
    code, told = case.code, _told(case)
    accesses = code.named(*_SHARED) if code else []
    ways = _ways(case, code, accesses, told) if code else {}
    if code is None or not code.whole:
        yield from _warning(case, told)
    elif ways:
        yield _judged(case, code, ways, told)
    elif not told:
        yield from _symptom(case, code, accesses)


def _judged(case: KernelCase, code: KernelCode, ways: dict[int, float], told: list[_Told]) -> Draft:
    """What conflicts cost."""
    taken = sum(
        (1 - 1 / each) * _taken(code, [i for i in ways if ways[i] == each])
        for each in set(ways.values())
    )
    assert not isinstance(taken, int)
    most, share = max(ways.values()), float(taken.sum()) / code.whole
    place = _place(case, code, list(ways))
    counted = not told or most != told[0][0]
    source = f"{most:.1f} passes where 1 would do" if counted else "by the layout"
    evidence = (
        Evidence("counters" if counted else "static", f"{most:.0f}-way conflicts: {source}"),
        Evidence("samples", f"{percent(share)} of the samples are what they add", int(taken.sum())),
    )
    title = f"{most:.0f}-way bank conflicts"
    if share < _COLD:
        return Draft("ignore", f"{title} that cost nothing", place, evidence,
                     "Leave it: these accesses take no time.", confidence="high")  # fmt: skip
    return Draft(
        "suggestion", title, place, evidence, _ADVICE, _COMPILER, eliminated(taken, code.whole),
        confidence="high" if counted else "medium",
    )  # fmt: skip


def _warning(case: KernelCase, told: list[_Told]) -> Iterator[Draft]:
    for ways, where in told[:1]:
        evidence = (Evidence("static", f"{ways:.0f}-way bank conflict by the layout"),)
        place = case.place(case.user_line(where), case.op_at(where))
        title = f"{ways:.0f}-way bank conflicts"
        yield Draft("warning", title, place, evidence, _ADVICE, _COMPILER)


def _symptom(case: KernelCase, code: KernelCode, accesses: list[int]) -> Iterator[Draft]:
    taken = _taken(code, accesses)
    share = float(taken.sum()) / code.whole
    if share < _MUCH:
        return
    text = f"{percent(share)} of the samples are at accesses to shared memory or wait for them"
    yield Draft(
        "symptom", "waits for shared memory", _place(case, code, accesses),
        (Evidence("samples", text, int(taken.sum())),), _COUNT_THEM,
    )  # fmt: skip


def _place(case: KernelCase, code: KernelCode, accesses: list[int]) -> Place:
    hot = code.hottest(accesses)
    assert hot is not None
    return case.place(case.user_line(hot.place), case.op_at(hot.place), (hot.offset, hot.offset))


def _ways(
    case: KernelCase, code: KernelCode, accesses: list[int], told: list[_Told]
) -> dict[int, float]:
    """Passes by those that would do, of accesses that have twice as many: counted by instruction,
    derived by the compiler, or counted by launch."""
    counted = {
        index: passes / ideal
        for index in accesses
        if (passes := code.executed([index], "shared_wavefronts"))
        and (ideal := code.executed([index], "shared_wavefronts_ideal"))
    }
    if counted:
        return {index: ways for index, ways in counted.items() if ways >= _LEAST}
    if told:
        return {
            index: ways
            for ways, where in reversed(told)
            for index in accesses
            if same_line(case.user_line(code.instructions[index].place), where)
        }
    rates = {"load": ("LDS", "LDSM"), "store": ("STS", "STSM")}
    return {
        index: 1 + rate
        for what, names in rates.items()
        if (rate := case.rate(f"conflicts_per_shared_{what}") or 0) >= _LEAST - 1
        for index in code.named(*names)
    }


def _told(case: KernelCase) -> list[_Told]:
    """What the compiler says, the most ways first."""
    found = list[_Told]()
    for remark in case.remarks:
        texts = (remark.chosen, *(reason for _, reason in remark.rejected))
        found += [(float(each[1]), remark.location) for t in texts if (each := _WAYS.search(t))]
    return sorted(found, key=lambda each: -each[0])


def _taken(code: KernelCode, accesses: list[int]) -> Weights:
    at = code.taken(code.rows(accesses, _QUEUE))
    return np.maximum(at, code.waiting_for(accesses, _QUEUE))


RULE = KernelRule("bank-conflict", find, ("samples", "counters"))
