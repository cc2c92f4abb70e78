"""What a rule says, before it is known how it stands beside what the others say.

A rule looks for a cause, and then at what it costs.  `Cause` holds what it knows without samples,
and makes the draft for each outcome:

    cause = Cause(title, case.at(hot), (static,), _AUTHOR, _COMPILER)
    if not code.whole:
        yield cause.warning()                                 # nothing was measured
        return
    seen = sampled(code, taken, "are at them or wait for them")
    if code.share(taken) < COLD:
        yield cause.ignored(", where it costs nothing", "Leave it: …", seen)
        return
    yield cause.costs(eliminated(taken, code.whole), seen)    # with a gain
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.findings import Confidence, Evidence, Place, Severity, Tier, percent
from tileprof.analyzer.fixes import Fix
from tileprof.analyzer.machine.code import KernelCode


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
    nodes: tuple[int, ...] = ()
    """Kernels and copies in the tree whose time a rule about a program saves; none where that is
    the time of gaps."""
    gaps: tuple[int, ...] = ()
    """Gaps in the tree whose time it saves; any, where it does not say which."""
    launches_go: bool = False
    """Whether all launches of its kernels and copies go too, and the host's time for them: then no
    late launch waits for that time, and none of it is slack."""
    exposed: float | None = None
    """Part of the kernels' saved time by which the program becomes shorter, 0 to 1, where the rule
    knows it; None: as slack and `launches_go` say."""
    fixes: tuple[Fix, ...] = ()
    """Changes that can be made without the author."""
    known: bool = False
    """Whether what it costs is known by itself: of what the work leaves to gain, others take what
    is left of that, and at least their own samples."""
    after_others: bool = False
    """Whether it tells how far the kernel is from what its device gives, which other causes are a
    reason of too: of the gain, what is left when the largest of them is gone is its own."""

    @property
    def line(self) -> int:
        """Line of its place; 0 where that is not known."""
        return self.place.location.line if self.place.location else 0


@dataclass(frozen=True, eq=False)
class Cause:
    """A cause as a rule found it, before it is known what it costs."""

    title: str
    place: Place
    evidence: tuple[Evidence, ...]
    author: str
    compiler: str = ""

    def warning(self) -> Draft:
        """Return what is said where nothing was measured of it."""
        return self._draft("warning", ())

    def symptom(self, *more: Evidence) -> Draft:
        """Return what is said where it was seen to cost time, and no number is known."""
        return self._draft("symptom", more)

    def ignored(
        self, where: str, author: str, *more: Evidence, confidence: Confidence = "high"
    ) -> Draft:
        """Return what is said where it costs nothing; `where` ends the title."""
        harmless = replace(self, title=f"{self.title}{where}", author=author, compiler="")
        return harmless._draft("ignore", more, confidence=confidence)

    def costs(
        self, saving: Saving | None, *more: Evidence, most: float = float("inf"),
        confidence: Confidence = "medium", known: bool = False,
    ) -> Draft:  # fmt: skip
        """Return what is said where it costs time, with what a change saves."""
        return replace(self._draft("suggestion", more, saving, most, confidence), known=known)

    def _draft(
        self, severity: Severity, more: tuple[Evidence, ...], saving: Saving | None = None,
        most: float = float("inf"), confidence: Confidence = "medium",
    ) -> Draft:  # fmt: skip
        evidence = (*self.evidence, *more)
        return Draft(
            severity, self.title, self.place, evidence, self.author, self.compiler, saving, most,
            confidence,
        )  # fmt: skip


def sampled(code: KernelCode, taken: Weights, what: str) -> Evidence:
    """Return how many samples a cause has, in percent of all, as `12.3 % of the samples {what}`."""
    text = f"{percent(code.share(taken))} of the samples {what}"
    return Evidence("samples", text, int(taken.sum()))


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
