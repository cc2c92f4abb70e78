"""What the compiler turned down, and why, by the time of the kernels in which it did.

In: kernels of a program, or of a whole suite.  Out: reasons, those of the longest kernels first. A
reason is the same where only its numbers differ: "rows of 200 bytes" and "of 72 bytes" are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.errors import Location
from tileprof.profile import RemarkInfo

__all__ = ["Reason", "reasons"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Reason:
    """A candidate that was turned down for one reason, in one kernel or in many."""

    op: str
    """The kind of op: `copy`."""
    candidate: str
    reason: str
    """As it was said in the longest of the kernels."""
    time: float
    """Of the kernels in which it was turned down, ns: what it may have to do with, not what it
    costs."""
    kernels: int
    kernel: str
    """The longest of them."""
    location: Location | None
    """Where in that."""


def reasons(cases: Iterable[KernelCase]) -> tuple[Reason, ...]:
    """The reasons of all these kernels, each kernel counted once for each."""
    held = dict[tuple[str, str, str], list[tuple[KernelCase, RemarkInfo, str, str]]]()
    for case in cases:
        for key, said in _of_kernel(case).items():
            held.setdefault(key, []).append((case, *said))
    found = [_reason(key[0], said) for key, said in held.items()]
    return tuple(sorted(found, key=lambda each: (-each.time, -each.kernels)))


def _of_kernel(case: KernelCase) -> dict[tuple[str, str, str], tuple[RemarkInfo, str, str]]:
    found = dict[tuple[str, str, str], tuple[RemarkInfo, str, str]]()
    for remark in case.remarks:
        kind = remark.op.partition(" ")[0]
        for candidate, reason in remark.rejected:
            key = (kind, _NUMBER.sub("#", candidate), _NUMBER.sub("#", reason))
            found.setdefault(key, (remark, candidate, reason))
    return found


def _reason(op: str, said: list[tuple[KernelCase, RemarkInfo, str, str]]) -> Reason:
    longest, remark, candidate, reason = max(said, key=lambda each: each[0].time)
    time = sum(case.time for case, *_ in said)
    return Reason(op, candidate, reason, time, len(said), longest.name, remark.location)
