"""Findings of a comparison: a `Change` for each kernel, and which commits brought it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tileprof.bench.gpu_state import GpuState

from .comparing import Difference, Level
from .costs import Fact
from .culprits import Culprit
from .forms import Engine
from .timing import Times

Verdict: TypeAlias = Literal[
    "slower", "faster", "same", "undecided", "changed", "unchanged", "only-old", "only-new",
    "failed",
]  # fmt: skip
CHANGED: frozenset[Verdict] = frozenset({"slower", "faster", "changed"})
"""Verdicts of kernels that changed. `changed` is said where nothing was timed."""


@dataclass(frozen=True, slots=True)
class Change:
    """One kernel on both sides, and the verdict."""

    kernel: str
    engine: Engine
    verdict: Verdict
    difference: Difference | None
    """First level that differs; None where a side has no forms of the kernel."""
    compared: Level
    """Last level that both sides have a form of."""
    same_code: bool
    """Whether a GPU runs the same on both sides."""
    times: Times | None
    costs: tuple[Fact, ...]
    """Instructions, registers and memory that differ."""
    launch: Mapping[str, tuple[str, str]]
    """Launch parameters that differ."""
    tools: Mapping[str, tuple[str, str]]
    """Versions that differ of what compiles the code."""
    numbers: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    """Instructions, registers and memory of each side."""
    culprits: tuple[Culprit, ...] = ()
    why: str = ""
    """Reason why a kernel failed."""


@dataclass(frozen=True, slots=True)
class CommitChange:
    """A commit at which the code of kernels changes."""

    commit: str
    subject: str
    """Short name, date and subject."""
    kernels: Mapping[str, Difference | None]
    """First level that differs from the commit before, for each kernel that changes."""
    between: int
    """Commits in front of it that could not be tried, so that it may be one of them."""
    files: tuple[str, ...]
    verdicts: Mapping[str, Verdict]
    """Verdicts of kernels that were timed across this commit."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found."""

    old: str
    new: str
    suite: str
    target: str
    device: str
    """Device on which kernels were timed; empty where they were only compiled."""
    untimed: str
    """Why nothing was timed; empty where kernels were."""
    floor: float
    facts: tuple[Mapping[str, str], Mapping[str, str]]
    """Versions of both sides."""
    changes: tuple[Change, ...]
    skipped: Mapping[str, str]
    """Kernels of the file that could not be compiled, and why."""
    commits: tuple[CommitChange, ...] = ()
    tried: int = 0
    """Commits that were tried."""
    no_walk: str = ""
    """Why no commits were walked, where both sides are commits."""
    missing: str = ""
    """Packages that are not installed and whose levels are therefore missing."""
    gpu: GpuState | None = None
    seconds: float = 0.0

    @property
    def changed(self) -> tuple[Change, ...]:
        """Kernels that changed."""
        return tuple(each for each in self.changes if each.verdict in CHANGED)
