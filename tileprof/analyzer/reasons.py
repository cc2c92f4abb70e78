"""What the compiler turned down, and why, by the time of the kernels in which it did.

In: kernels of a program, or of a whole suite.  Out: candidates with the reason against each, those
of the longest kernels first. A reason is the same where only its numbers differ: "rows of 200
bytes" and "of 72 bytes" are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tileprof.analyzer.cases import KernelCase
from tileprof.errors import Location
from tileprof.remarks import Candidate, Reason, Rejection, Remark, Statement


@dataclass(frozen=True, slots=True)
class TurnedDown:
    """A candidate that was turned down for one reason, in one kernel or in many."""

    op: str
    """The kind of op: `copy`."""
    candidate: Candidate
    reason: Reason
    """The reason with the numbers of the longest of the kernels."""
    time: float
    """Time of the kernels in which it was turned down, ns: what it may have to do with, not what it
    costs."""
    kernels: int
    kernel: str
    """The longest of them."""
    location: Location | None
    """Where in that."""


class _Seen(NamedTuple):
    """A rejection in a kernel."""

    case: KernelCase
    remark: Remark
    rejection: Rejection


def reasons(cases: Iterable[KernelCase]) -> tuple[TurnedDown, ...]:
    """Return the reasons of all these kernels, each kernel counted once for each."""
    held = dict[Hashable, list[_Seen]]()
    for case in cases:
        for key, seen in _of_kernel(case).items():
            held.setdefault(key, []).append(seen)
    found = [_turned_down(seen) for seen in held.values()]
    return tuple(sorted(found, key=lambda each: (-each.time, -each.kernels)))


def _of_kernel(case: KernelCase) -> dict[Hashable, _Seen]:
    found = dict[Hashable, _Seen]()
    for remark in case.remarks:
        for each in remark.rejected:
            key = (remark.op, _without_numbers(each.candidate), _without_numbers(each.reason))
            found.setdefault(key, _Seen(case, remark, each))
    return found


def _without_numbers(fact: Any) -> Hashable:
    """A fact, or a statement with all of its facts, where numbers are all alike."""
    if isinstance(fact, Statement):
        return (fact.code(), *map(_without_numbers, fact.facts.values()))
    if isinstance(fact, tuple):
        return tuple(map(_without_numbers, fact))
    is_number = isinstance(fact, int | float) and not isinstance(fact, bool)
    held: Hashable = None if is_number else fact
    return held


def _turned_down(seen: list[_Seen]) -> TurnedDown:
    longest = max(seen, key=lambda each: each.case.time)
    time = sum(each.case.time for each in seen)
    candidate, reason = longest.rejection.candidate, longest.rejection.reason
    remark, kernel = longest.remark, longest.case.name
    return TurnedDown(remark.op, candidate, reason, time, len(seen), kernel, remark.location)
