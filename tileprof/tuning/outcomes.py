"""Outcome of a search: every configuration with what the model and the measurement say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tileprof.bench import Interval

from .configurations import Configuration
from .model import Estimate
from .ruled_out import Failure
from .space import Space
from .trials import Refused

Verdict: TypeAlias = Literal[
    "winner", "equal", "slower", "wrong", "failed", "refused", "spills", "ruled-out", "not-timed"
]
"""`equal`: no slower than the winner beyond what matters; `wrong`: other results than those of the
default; `failed`: an error when it ran; `not-timed`: the model expects nothing of it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Time of a configuration."""

    ns: float
    """Median time of a call, in ns."""
    ratio: Interval | None
    """Time over that of `against`, by pairs; None for the first that was timed."""
    against: Configuration | None
    """The fastest configuration when this one was timed."""
    rounds: int
    position: int = 0
    """Position in the order in which configurations were timed, from 1."""
    decided: bool = False
    """Whether the comparison left no doubt which of the two is faster."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One configuration that was looked at."""

    configuration: Configuration
    verdict: Verdict
    estimate: Estimate | None = None
    """The model's, from machine code where that was made."""
    expected_ns: float | None = None
    """The model's time, corrected by what was measured of other configurations."""
    compiled: bool = False
    """Whether machine code was made in a trial."""
    registers: int = 0
    spilled: int = 0
    """Bytes a thread spills."""
    measured: Measured | None = None
    refused: Refused | None = None
    because: Failure | None = None
    """The failure of another configuration that rules it out."""
    reason: str = ""
    """Sentence for `wrong` and `failed`."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Time that a search took, in s, by its steps."""

    lowering: float = 0.0
    compiling: float = 0.0
    timing: float = 0.0

    @property
    def total(self) -> float:
        """Time of all steps."""
        return self.lowering + self.compiling + self.timing


@dataclass(frozen=True)
class Outcome:
    """Result of one search."""

    kernel: str
    device: str
    """`cuda:0`, `cpu`; '' where nothing was timed."""
    machine: str
    """Name of the device that the model is about."""
    space: Space
    looked: tuple[Looked, ...]
    """The winner first, then by time, then by the model's time."""
    seconds: Seconds
    sure: bool
    """Whether the winner beats the next by pairs, or differs by less than matters."""
    rank_correlation: float
    """Spearman's correlation of the model's time and the measured one; nan below 3 timed."""
    notes: tuple[str, ...] = field(default=())

    @property
    def winner(self) -> Looked:
        """The configuration to use."""
        return self.looked[0]

    @property
    def timed(self) -> tuple[Looked, ...]:
        """Those that were timed."""
        return tuple(each for each in self.looked if each.measured)

    def counts(self) -> Mapping[Verdict, int]:
        """Number of configurations with each verdict."""
        found: dict[Verdict, int] = {}
        for each in self.looked:
            found[each.verdict] = found.get(each.verdict, 0) + 1
        return found
