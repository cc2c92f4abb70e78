"""State that the passes of one lowering share, and the remarks about what they decide.

A remark is about one op of the author's program: its name, its line, what was chosen, and each
faster candidate with the reason against it.  `missed` marks a faster form that the author could get
by changing the program; with `strict` such a remark is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.errors import Location
from tileprof.instrument import Mode
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark, Severity

from .controls import Controls
from .target import Target


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

    def extend(self, other: Remarks) -> None:
        """Note everything that another has."""
        self._held.update(other._held)

    def all(self) -> tuple[Remark, ...]:
        """Everything noted."""
        return tuple(self._held)


@dataclass(frozen=True, slots=True)
class Lowering:
    """Facts that a pass may read besides the kernel, and the place for its decisions."""

    target: Target
    controls: Controls
    remarks: Remarks = field(default_factory=Remarks)
    unaligned: frozenset[int] = frozenset()
    """Positions of parameters whose address, or whose distances between rows that are known at
    launch only, may be no multiples of 16 bytes."""
    aliased: bool = False
    """Whether a tensor that is written may overlap another."""
    instrument: Mode = "off"
    """Kind of measurement inside the kernel."""

    def stages(self, loop: ir.For) -> int:
        """Return how many iterations of a loop are loaded ahead, the current one included."""
        asked = self.controls.stages
        return loop.num_stages if asked is None else asked


def has_open_rows(type_: ir.BufferType) -> bool:
    """Return whether elements between neighbours of a dimension, but the last, are known at launch
    only."""
    counts = type_.shape[1:] if type_.strides is None else type_.strides[:-1]
    return any(isinstance(count, str) for count in counts)


def stride_divisors(type_: ir.BufferType) -> list[int]:
    """Return, for each dimension, a number that surely divides the elements from one index to the
    next: all of them where they are known, what the known extents behind make of others."""
    if type_.strides is not None:
        return [stride if isinstance(stride, int) else 1 for stride in type_.strides]
    found: list[int] = []
    step = 1
    for extent in reversed(type_.shape):
        found.insert(0, step)
        step *= extent if isinstance(extent, int) else 1
    return found


def line_of(op: ir.OpBase) -> int:
    """Return the line of the author's file that an op stands in; 0 where it is not known."""
    return 0 if op.span is None else op.span.line
