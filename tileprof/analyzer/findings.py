"""What an analysis says: findings, and the parts that they are made of.

A finding that names a cause and has seen it cost time is a `suggestion`, with the gain that a
change would bring. Seen without a cause it is a `symptom`; a cause that nothing was measured of is
a `warning`. Both have no number. `ignore` says of a warning that is true that it costs nothing,
`stop` that there is nothing left to gain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tileprof.analyzer.fixes import Fix
from tileprof.analyzer.numbers.reports import FINDINGS_LONGEST_NAME
from tileprof.errors import Location
from tileprof.profile.tree.cards import Card, short
from tileprof.remarks import Remark

Severity: TypeAlias = Literal["suggestion", "symptom", "warning", "stop", "ignore"]
Confidence: TypeAlias = Literal["high", "medium", "low"]
Tier: TypeAlias = Literal["static", "host", "activities", "scopes", "samples", "counters"]


def percent(share: float, digits: int = 1) -> str:
    """A share as people read it: `94.7 %`."""
    return f"{100 * share:.{digits}f} %"


def duration(nanoseconds: float) -> str:
    """A time that people can read: `1.51 ms`."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plain(name: str) -> str:
    """Return a kernel's name without what C++ puts around it, and without the end of a long one."""
    short = re.split(r"[<(]", name.removeprefix("void ").replace("(anonymous namespace)::", ""))[0]
    short = short or name
    most = FINDINGS_LONGEST_NAME
    return short if len(short) <= most else f"{short[: most - 1]}…"


TIERS: tuple[Tier, ...] = get_args(Tier)
"""Kinds of evidence: what the compiler and the machine code say; time of the host's threads, where
no device was timed; launches and their times; time by scope inside kernels, or samples that the
compiler put there; samples of program counters; hardware counters and counts of instructions."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is, as far as it is known."""

    kernel: str = ""
    path: tuple[str, ...] = ()
    """From the program's entry to the kernel, or to the node of the finding."""
    op: str = ""
    """As remarks name it: `copy A → A_shared`."""
    location: Location | None = None
    sass: tuple[int, int] | None = None
    """Offsets of the first and the last instruction."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a finding rests on."""

    tier: Tier
    text: str
    samples: int = 0
    """How many samples it is made of, where it is made of samples."""
    remark: Remark | None = None
    """The remark that it is the text of, where it is one's."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Time before a change by time after it, at least 1: a range, and the likeliest."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        assert 1 <= self.low <= self.mid <= self.high, self

    def __str__(self) -> str:
        return f"{self.mid:.2f}× ({self.low:.2f}–{self.high:.2f})"

    def to_json(self) -> list[float]:
        """Return what JSON forms say of a gain."""
        return [self.low, self.mid, self.high]


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """One answer: what is wrong where, how that is known, what to do, what it would bring."""

    rule: str
    severity: Severity
    title: str
    """A sentence without a full stop."""
    place: Place
    evidence: tuple[Evidence, ...]
    author: str
    """What who wrote the kernel, or the program, can do."""
    compiler: str = ""
    """What who develops the compiler can do; empty where it is not the compiler's doing."""
    confidence: Confidence = "medium"
    kernel_gain: Gain | None = None
    program_gain: Gain | None = None
    fixes: tuple[Fix, ...] = ()
    """Changes that `tileprof try` can make by itself, each of them an answer to the finding."""

    def __repr__(self) -> str:
        gain = f", program {self.program_gain}" if self.program_gain else ""
        return f"Finding({self.severity} {self.rule}: {short(self.title)}{gain})"

    def _repr_html_(self) -> str:
        """Return all of it as a notebook shows it."""
        rows = [("where", self._where())]
        rows += [("gain", f"program {self.program_gain}")] if self.program_gain else []
        rows += [("because", each.text) for each in self.evidence]
        rows += [("do", self.author)] if self.author else []
        title = f"{self.severity}: {short(self.title, 160)} ({self.rule})"
        return Card(title, (), rows).html(whole=True)

    def headline(self) -> str:
        """Return one line: severity, title, rule, place and gain."""
        place = self.place
        named = place.kernel and plain(place.kernel)
        where = named or " → ".join(place.path[-2:]) or "the program"
        at = f" ({place.location.short})" if place.location else ""
        gain = f", program {self.program_gain}" if self.program_gain else ""
        said = f"{self.severity}: {short(self.title, 160)} ({self.rule})"
        return f"{said} in {short(where)}{at}{gain}"

    def text(self) -> str:
        """Return all of it as plain lines: what, where, the gain, why, what to do."""
        lines = [f"{self.severity}: {self.title} ({self.rule})", f"  where: {self._where()}"]
        if self.program_gain:
            lines.append(f"  gain: program {self.program_gain}, confidence {self.confidence}")
        lines += [f"  because: {each.text}" for each in self.evidence]
        lines += [f"  do: {self.author}"] if self.author else []
        return "\n".join(short(line, 2000) for line in lines)

    def _where(self) -> str:
        place = self.place
        where = ", ".join(
            text for text in (place.kernel or " → ".join(place.path), place.op) if text
        )
        at = f" ({place.location.file}:{place.location.line})" if place.location else ""
        return f"{where}{at}"

    @property
    def static(self) -> tuple[Evidence, ...]:
        """What is known without running."""
        return tuple(each for each in self.evidence if each.tier == "static")

    @property
    def dynamic(self) -> tuple[Evidence, ...]:
        """What was measured."""
        return tuple(each for each in self.evidence if each.tier != "static")


def identified(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return findings by ids that the same cause at the same place has in every recording.

    An id is the rule and a digest of the place; numbers, and lines that moved, are no part of it.
    """
    found: dict[str, Finding] = {}
    for each in findings:
        place = each.place
        function = "" if place.location is None else place.location.function
        parts = (place.kernel, place.op, function, *place.path)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]
        key, count = f"{each.rule}-{digest}", 1
        while key in found:
            count += 1
            key = f"{each.rule}-{digest}-{count}"
        found[key] = each
    return found
