"""Accesses to shared memory whose lanes meet in one bank, so that they go one after the other.

Static: what the compiler derived from the layout ("8-way bank conflict"). Dynamic: samples at
accesses to shared memory whose queue is full, or what waits for them; passes through shared memory
beside those that would do, by instruction or by launch. An access of w passes becomes one of the
ideal number: (1 - ideal / w) of its time goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.errors import Location

__all__ = ["RULE"]

_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_QUEUE = ("mio_throttle", "short_scoreboard")
_COLD = 0.01
_WAYS = re.compile(r"(\d+)-way bank conflict")
_ADVICE = (
    "Let lanes of a warp touch different banks: leave the buffer's layout to the compiler (no"
    " annotation), pad its rows by 16 bytes, or let the lanes go along its last dimension."
)
_COMPILER = (
    "The layout of this buffer was fixed before the access was costed: see which op fixed it, and"
    " whether a swizzle serves both."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Conflicts that the layout, or counts, tell of."""
    code, told = case.code, _told(case)
    accesses = code.named(*_SHARED) if code else []
    counted = _counted(case, code, accesses)
    ways = counted or max((ways for ways, _ in told), default=0)
    if ways < 2:
        return
    hot = code.hottest(accesses) if code else None
    where = hot.place if hot else told[0][1]
    sass = (hot.offset, hot.offset) if hot else None
    place = case.place(case.user_line(where), case.op_at(where), sass)
    evidence = [Evidence("static", f"{n}-way bank conflict by the layout") for n, _ in told[:1]]
    if counted:
        text = f"{counted:.1f} passes through shared memory where 1 would do"
        evidence.append(Evidence("counters", text))
    if code is None or not code.whole:
        yield Draft("warning", f"{ways:.0f}-way bank conflicts", place, tuple(evidence), _ADVICE,
                    _COMPILER)  # fmt: skip
        return
    taken = _taken(code, accesses)
    share = float(taken.sum()) / code.whole
    text = f"{share:.1%} of the samples are at such accesses or wait for them"
    evidence.append(Evidence("samples", text, int(taken.sum())))
    if share * (1 - 1 / ways) < _COLD:
        yield Draft(
            "ignore", f"{ways:.0f}-way bank conflicts that cost nothing", place, tuple(evidence),
            "Leave it: these accesses take no time.", confidence="high",
        )  # fmt: skip
        return
    yield Draft(
        "suggestion", f"{ways:.0f}-way bank conflicts", place, tuple(evidence), _ADVICE, _COMPILER,
        eliminated(taken, code.whole, 1 - 1 / ways), confidence="high" if counted else "medium",
    )  # fmt: skip


def _told(case: KernelCase) -> list[tuple[float, Location | None]]:
    """Ways, and where, the most first."""
    found = list[tuple[float, Location | None]]()
    for remark in case.remarks:
        texts = (remark.chosen, *(reason for _, reason in remark.rejected))
        found += [(float(each[1]), remark.location) for t in texts if (each := _WAYS.search(t))]
    return sorted(found, key=lambda each: -each[0])


def _counted(case: KernelCase, code: KernelCode | None, accesses: list[int]) -> float:
    """Passes by those that would do; 0 where neither was counted."""
    if code is not None:
        passes = code.executed(accesses, "shared_wavefronts")
        ideal = code.executed(accesses, "shared_wavefronts_ideal")
        if passes and ideal:
            return passes / ideal
    rates = [case.rate(f"conflicts_per_shared_{what}") for what in ("load", "store")]
    conflicts = max((rate for rate in rates if rate is not None), default=0.0)
    return 1 + conflicts if conflicts else 0.0


def _taken(code: KernelCode, accesses: list[int]) -> Weights:
    at = code.taken(code.rows(accesses, _QUEUE))
    return np.maximum(at, code.waiting_for(accesses, _QUEUE))


RULE = KernelRule("bank-conflict", find, ("samples", "counters"))
