"""What a rule says, before it is known how it stands beside what the others say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Confidence, Evidence, Place, Severity, Tier


@dataclass(frozen=True, eq=False)
class Draft:
    """A finding without its gains."""

    severity: Severity
    title: str
    """A sentence without a full stop."""
    place: Place
    evidence: tuple[Evidence, ...]
    author: str
    compiler: str = ""
    saving: Saving | None = None
    """Of the kernel's time; of the program's, where a rule is about a program. None: no number."""
    most: float = float("inf")
    """How many times as fast it can become by what the rule knows, beside measured roofs."""
    confidence: Confidence = "medium"


_Find: TypeAlias = Callable[[KernelCase], Iterator[Draft]]
_FindInProgram: TypeAlias = Callable[[Program], Iterator[Draft]]


@dataclass(frozen=True, slots=True)
class KernelRule:
    """A rule about one kernel."""

    name: str
    find: _Find
    sharper: tuple[Tier, ...] = ("samples",)
    """Kinds of evidence that it can use, any of which makes it sure."""


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """A rule about a program."""

    name: str
    find: _FindInProgram
    sharper: tuple[Tier, ...] = ("activities",)
