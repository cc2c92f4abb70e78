"""Shared-memory accesses in which several lanes use one bank and are served one after the other.

Static: what the compiler derived from the layout ("8-way bank conflict"), else what the addresses
of lanes in the code come to. Dynamic: samples at accesses to shared memory whose queue is full, or
what waits for them, and for room behind them; passes through shared memory beside those that would
do, by instruction or by launch. Of what waits in their queue that part goes that their other passes
are of all (`queues`): what stays are a pass for the addresses of each request, one for its bytes,
and other accesses; rows that are padded by a word can be moved by words only, so wider accesses
come to more passes. (An H200 that had 0.77 of its samples in that queue, at 16-way conflicts of
words beside stores of 16 bytes, took 0.46 of the time; its passes say 0.44.) As that counts what
stands behind conflicts as well, it is told as it is, and only no more than the work leaves.

Where memory gives no more there is nothing to gain: an H200 transposed as fast with 8-way conflicts
as without. Without any of that, much waiting for shared memory is a symptom: samples cannot tell
conflicts from many accesses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving, Weights, eliminated
from tileprof.analyzer.findings import Confidence, Evidence, Place, Tier, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.queues import behind, of_ways, passes_of
from tileprof.analyzer.kernel.shared_memory import passes_at
from tileprof.analyzer.machine.code import ISSUED, KernelCode, same_line
from tileprof.analyzer.numbers.shared import BANK_BYTES, COOL, FEWEST_SAMPLES
from tileprof.analyzer.rules.numbers.memory import (
    BANK_CONFLICTS_FEWEST,
    BANK_CONFLICTS_LEAST,
    BANK_CONFLICTS_MUCH,
    BANK_CONFLICTS_OF_WORD,
)
from tileprof.errors import Location
from tileprof.remarks import Remark
from tileprof.remarks.layouts import Conflicts, SharedAccess, SharedLayoutOf

_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_QUEUE = ("mio_throttle", "short_scoreboard")
_Told: TypeAlias = tuple[float, Location | None]
"""Ways, and where."""
_ADVICE = (
    "Let lanes of a warp touch different banks: leave the buffer's layout to the compiler (no"
    " annotation), pad its rows by 16 bytes, or let the lanes go along its last dimension."
)
_COUNT_THEM = (
    "Check whether its lanes conflict in a bank: `tileprof run --metrics instructions"
    " SCRIPT` counts the"
    " passes of each access. If so, pad or swizzle the buffer; if not, move more bytes by each."
)
_COMPILER = (
    "The layout of this buffer was fixed before the access was costed: see which op fixed it, and"
    " whether a swizzle serves both."
)


@dataclass(frozen=True, slots=True)
class _Conflicts:
    """Of each access, its passes by those that would do, and how that is known."""

    tier: Tier
    text: str
    ways: dict[int, float]


def find(case: KernelCase) -> Iterator[Draft]:
    """Conflicts that counts, the layout or addresses tell of; else waits for shared memory."""
    code, told = case.code, _told(case)
    accesses = code.named(*_SHARED) if code else []
    conflicts = _conflicts(case, code, accesses, told) if code else None
    if code is None or not code.whole:
        yield from _warning(case, code, told, conflicts)
    elif conflicts is not None and conflicts.ways:
        yield _judged(case, code, conflicts)
    elif not told:
        yield from _symptom(case, code, accesses)


def _judged(case: KernelCase, code: KernelCode, found: _Conflicts) -> Draft:
    """What conflicts cost."""
    ways, use = found.ways, memory_use(case)
    taken = _gone(code, ways)
    most, share = max(ways.values()), float(taken.sum()) / code.whole
    place, title = _place(case, code, list(ways)), f"{most:.0f}-way bank conflicts"
    evidence = [
        Evidence(found.tier, f"{most:.0f}-way conflicts: {found.text}"),
        Evidence(
            "samples", f"{percent(share)} of the samples are the added passes", int(taken.sum())
        ),
    ]
    near = use is not None and use.near
    if use and near:
        evidence.append(Evidence("activities", use.text))
    cause = Cause(title, place, tuple(evidence), _ADVICE, _COMPILER)
    if share < COOL or near:
        why = "memory bandwidth is the limit" if near else "these accesses take no time"
        return cause.ignored(" that cost nothing", f"Leave it: {why}.")
    confidence: Confidence = "high" if found.tier == "counters" else "medium"
    return cause.costs(_saving(case, code, taken), most=most, confidence=confidence)


def _saving(case: KernelCase, code: KernelCode, taken: Weights) -> Saving:
    """What passes say, as long as the work leaves it: waits behind the queue are in it already."""
    found, left = eliminated(taken, code.whole), reach.left(case, taken)
    if left is None or found.samples < FEWEST_SAMPLES:
        return found
    mid = min(found.mid, left.mid)
    return Saving(min(found.low, left.low), mid, max(mid, left.high), samples=found.samples)


def _gone(code: KernelCode, ways: dict[int, float]) -> Weights:
    """What waits for the passes that go, and not for those that stay or come instead."""
    gone, passes = of_ways(code, ways)
    if max(width_of(code.instructions[index].opcode) for index in ways) <= BANK_BYTES:
        for index in code.named("LDS", "STS"):
            pieces = width_of(code.instructions[index].opcode) // BANK_BYTES
            if index not in ways and pieces > 1:
                passes[index] = passes_of(code.instructions[index])
                gone[index] = passes[index] - pieces * BANK_CONFLICTS_OF_WORD
    taken = behind(code, gone, passes)
    if code.n(ways, (ISSUED,)) < BANK_CONFLICTS_FEWEST:
        for index in ways:
            taken = np.maximum(taken, gone[index] / passes[index] * _taken(code, [index]))
    return np.maximum(taken, 0.0)


def _warning(
    case: KernelCase, code: KernelCode | None, told: list[_Told], found: _Conflicts | None
) -> Iterator[Draft]:  # fmt: skip
    """What nothing was measured of."""
    if told:
        ways, where = told[0]
        place = case.place(case.user_line(where), case.op_at(where))
        text = f"{ways:.0f}-way bank conflict by the layout"
    elif code is not None and found is not None and found.ways:
        ways = max(found.ways.values())
        place, text = (
            _place(case, code, list(found.ways)),
            f"{ways:.0f}-way conflicts: {found.text}",
        )
    else:
        return
    evidence = (Evidence(found.tier if found and not told else "static", text),)
    yield Draft("warning", f"{ways:.0f}-way bank conflicts", place, evidence, _ADVICE, _COMPILER)


def _symptom(case: KernelCase, code: KernelCode, accesses: list[int]) -> Iterator[Draft]:
    taken = _taken(code, accesses)
    share = float(taken.sum()) / code.whole
    hot = code.hottest(accesses)
    if share < BANK_CONFLICTS_MUCH or (hot and hot.index in passes_at(case)):
        return
    text = f"{percent(share)} of the samples are at accesses to shared memory or wait for them"
    yield Draft(
        "symptom", "waits for shared memory", _place(case, code, accesses),
        (Evidence("samples", text, int(taken.sum())),), _COUNT_THEM,
    )  # fmt: skip


def _place(case: KernelCase, code: KernelCode, accesses: list[int]) -> Place:
    hot = code.hottest(accesses)
    assert hot is not None
    line = case.line_of(hot)
    shared = (
        each.subject
        for each in case.remarks
        if same_line(each.location, line) and _is_counted(each)
    )
    return case.place(line, next(shared, case.op_at(line)), (hot.offset, hot.offset))


def _conflicts(
    case: KernelCase, code: KernelCode, accesses: list[int], told: list[_Told]
) -> _Conflicts | None:
    """Passes of accesses that have twice as many as would do: counted by instruction, derived by
    the compiler, counted by launch, or worked out of addresses; None where nothing is known."""
    if counted := _counted(code, accesses):
        return _Conflicts("counters", _passes_text(counted), _much(counted))
    if told:
        lines = {
            index: ways
            for ways, where in reversed(told)
            for index in accesses
            if same_line(case.user_line(code.instructions[index].place), where)
        }
        return _Conflicts("static", "by the layout", lines)
    rates = {"load": ("LDS", "LDSM"), "store": ("STS", "STSM")}
    by_launch = {
        index: 1 + rate
        for what, names in rates.items()
        if (rate := case.rate(f"conflicts_per_shared_{what}") or 0) >= BANK_CONFLICTS_LEAST - 1
        for index in code.named(*names)
    }
    if by_launch:
        return _Conflicts("counters", _passes_text(by_launch), by_launch)
    known = passes_at(case)
    if remarks := [each for each in case.remarks if _is_counted(each)]:
        # The compiler's own counts come first, but it has none of what products read by rows.
        known = {i: known[i] for i in known if not _is_of_remark(case, code, i, remarks)}
    ways = {index: passes / ideal for index, (passes, ideal) in known.items()}
    return _Conflicts("static", "by the addresses of its lanes", _much(ways)) if ways else None


def _counted(code: KernelCode, accesses: list[int]) -> dict[int, float]:
    return {
        index: passes / ideal
        for index in accesses
        if (passes := code.executed([index], "shared_wavefronts"))
        and (ideal := code.executed([index], "shared_wavefronts_ideal"))
    }


def _much(ways: dict[int, float]) -> dict[int, float]:
    return {index: many for index, many in ways.items() if many >= BANK_CONFLICTS_LEAST}


def _passes_text(ways: dict[int, float]) -> str:
    return f"{max(ways.values()):.1f} passes where 1 would do"


def _told(case: KernelCase) -> list[_Told]:
    """What the compiler says, the most ways first."""
    found = [
        (float(reason.ways), remark.location)
        for remark in case.remarks
        for reason in remark.reasons(Conflicts)
    ]
    return sorted(found, key=lambda each: -each[0])


def _is_of_remark(
    case: KernelCase, code: KernelCode, index: int, counted: Sequence[Remark]
) -> bool:  # fmt: skip
    """Return whether one of these remarks is about an access: its line has them, of its kind."""
    name, place = code.instructions[index].name, case.user_line(code.instructions[index].place)
    op = {"LDS": "load", "STS": "store"}.get(name)
    return any(op == each.op and same_line(place, each.location) for each in counted)


def _is_counted(remark: Remark) -> bool:
    """Whether the compiler counted the wavefronts of an access to shared memory."""
    match remark.decision:
        case SharedAccess():
            return True
        case SharedLayoutOf(ways=ways):
            return ways > 0
        case _:
            return False


def _taken(code: KernelCode, accesses: list[int]) -> Weights:
    at = code.taken(code.rows(accesses, _QUEUE))
    return np.maximum(at, code.waiting_for(accesses, _QUEUE))


RULE = KernelRule("bank-conflict", find, ("samples", "counters"))
