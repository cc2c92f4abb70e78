"""Where the passes write down what they decide.

A remark is about one op of the author's program: its name, its line, what was chosen, and each
faster candidate with the reason against it.  `missed` marks a faster form that the author could get
by changing the program; with `strict` such a remark is an error.
"""

from __future__ import annotations

from tileprof.errors import Location
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark, Severity


class Remarks:
    """Remarks in the order of decisions; an equal one is kept once."""

    def __init__(self) -> None:
        self._held: dict[Remark, None] = {}

    def add(
        self,
        op: str,
        name: str,
        location: Location | None,
        decision: Decision,
        *rejected: tuple[Candidate, Reason],
        severity: Severity = "info",
    ) -> None:
        """Note a decision about the op of this kind and name; `rejected` are candidates with the
        reason against each."""
        against = tuple(Rejection(*pair) for pair in rejected)
        self._held[Remark(decision, op, name, location, against, severity)] = None

    def all(self) -> tuple[Remark, ...]:
        """Everything noted."""
        return tuple(self._held)
