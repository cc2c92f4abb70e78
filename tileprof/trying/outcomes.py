"""Candidates, settings and outcomes of trials.

In: what a report or a user asks for.  Out: typed facts that `trials` fills in, and `choosing`, the
ledger and views read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.fixes import Fix
from tileprof.bench.doubts import Doubt
from tileprof.bench.intervals import Interval

from .comparing import Comparison
from .measuring import Pair, Timing
from .orders import Place
from .processes import Circumstances

Verdict: TypeAlias = Literal[
    "kept", "not-faster", "undecided", "different", "not-compared", "not-applied", "failed"
]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Changes that are tried together, mostly a single one."""

    fixes: tuple[Fix, ...]
    finding: str = ""
    """Id of the finding whose answer it is; empty where the user named it."""
    predicted: Gain | None = None
    """Gain of the program that the finding states."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.fixes))


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of trials."""

    kept_steps: int = 5
    """Steps whose results are compared."""
    untimed: int = 10
    """Steps before the first timed one."""
    least: float = 0.01
    """Gain from which a change is worth keeping, as a share."""
    seconds: float = 180.0
    """Time after which no further pair of a change is begun."""
    budget: float | None = None
    """Time after which no further change is begun, from the first process on, in s."""
    tolerance: float | None = None
    """Largest relative difference of values; None: as the change may move results."""
    uncompared: bool = False
    """Keep what is faster also where nothing could be compared."""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a candidate."""

    candidate: Candidate
    verdict: Verdict
    why: str
    measured: Interval | None
    """Time before by time after, with its 95 % interval."""
    pairs: tuple[Pair, ...]
    comparison: Comparison | None
    """None where no process of the changed program came so far."""
    tolerance: float
    seconds: float
    unit: Literal["step", "run"]
    """Work that a time is of."""
    circumstances: Circumstances
    """Circumstances of the last process of the changed program."""
    doubts: tuple[Doubt, ...] = ()
    """Reasons to doubt its times."""
    places: tuple[tuple[Place, ...], ...] = ()
    """Places of the program's code when each change acted first."""
