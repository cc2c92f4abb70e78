"""One decision about one op, what it was chosen over, and why.

matmul.py:31:9: view A: guarded
  not without a guard: in dimension 0, nothing says that the index stays below `m`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from tileprof.errors import Location

from .statement import Candidate, Decision, Reason

Severity = Literal["info", "missed"]
_INTO = " → "
"""Stands between the names of what a copy reads and writes."""
_Found = TypeVar("_Found", bound=Reason)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A candidate that was not chosen."""

    candidate: Candidate
    reason: Reason

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Remark:
    """One decision about one op.

    A `missed` one is a wish of the author that was not met, or a faster form that the author could
    have; an `info` one is a choice that could have gone otherwise.
    """

    decision: Decision
    op: str
    """Kind of the op: `copy`, `buffer`, `gemm`, …"""
    name: str = ""
    """Name that tells the op from others of its kind: `A → A_shared`."""
    location: Location | None = None
    rejected: tuple[Rejection, ...] = ()
    severity: Severity = "info"

    @property
    def subject(self) -> str:
        """Kind and name of the op."""
        return f"{self.op} {self.name}".rstrip()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the buffers that the op is about: of a copy what it reads and what it writes."""
        return tuple(self.name.split(_INTO))

    @property
    def against(self) -> str:
        """All candidates, each with the reason against it, as one sentence."""
        return "; ".join(map(str, self.rejected))

    def reasons(self, kind: type[_Found], against: type[Candidate] = Candidate) -> Iterator[_Found]:
        """Yield the reasons of a kind, also within others, against candidates of a kind."""
        for each in self.rejected:
            if isinstance(each.candidate, against):
                yield from (r for r in each.reason.within() if isinstance(r, kind))

    def __str__(self) -> str:
        place = "" if self.location is None else f"{self.location}: "
        lines = [f"{place}{self.subject}: {self.decision}"]
        return "\n".join(lines + [f"  not {each}" for each in self.rejected])
