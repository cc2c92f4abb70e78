"""One finding in some lines: what, where, what it would bring, how that is known, what to do.

In: a finding.  Out: lines. Words say what a severity means where there is no number: why there is
none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tileprof.analyzer import Evidence, Finding, Place
from tileprof.errors import Location
from tileprof.profile.units import format_value
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings.options import Voice
from tileprof.viewer.findings.paper import Paper
from tileprof.viewer.kernel_names import short_forms
from tileprof.viewer.text import UNICODE, shorten, width_of

_STYLES = {
    "suggestion": "1;32", "symptom": "1;33", "warning": "33", "stop": "36", "ignore": "2",
}  # fmt: skip
_NO_GAIN = {
    "suggestion": "unknown",
    "symptom": "unknown: the cause could not be determined from this recording",
    "warning": "unknown: its cost was not measured, or in too few samples",
    "stop": "none: this is the limit of the hardware",
    "ignore": "none: the pattern is present but off the critical path",
}
_PLURALS = {
    "suggestion": "suggestions", "symptom": "symptoms", "warning": "warnings",
    "stop": "at their limit", "ignore": "to ignore",
}  # fmt: skip
_LONGEST_NAME = 60
"""Cells of a kernel's name."""
_MOST_NAMES = 4
"""Largest number of names shown of a path."""
_OPERATION = "aten::"
"""Beginning of the names of PyTorch's operations."""
_SINGULARS = {"stop": "at its limit", "ignore": "to ignore"}


def entry(
    finding: Finding, voice: Voice, paper: Paper, sources: SourceTexts, file: str = ""
) -> list[str]:
    """Return a finding's lines; `file` names the profile where there are several."""
    style = _STYLES[finding.severity]
    title = f"{finding.severity}: {finding.title} ({finding.rule})"
    lines = paper.sentence(title, style)
    lines += paper.field("where", place_text(finding.place, file))
    lines += _further(finding.place, paper, sources)
    lines += paper.field("gain", _gain(finding), "1" if finding.program_gain else "")
    for number, each in enumerate(finding.evidence):
        lines += paper.field("" if number else "because", _evidence(each))
    advice = finding.compiler if voice == "compiler" else finding.author
    return lines + (paper.field("do", advice) if advice else [])


def place_text(place: Place, file: str = "") -> str:
    """Return kernel, op, line and instructions, as far as known; for a program its path."""
    named = kernel_text(place.kernel) or _path(place.path) or "the program"
    op = "" if not place.kernel and place.path[-1:] == (place.op,) else place.op
    parts = [named, op, short_place(place.location), _sass(place.sass), file and f"in {file}"]
    return ", ".join(part for part in parts if part)


def kernel_text(name: str) -> str:
    """Return a kernel's name, in a shorter form where it is a long one of C++."""
    forms = (name, *short_forms(name))
    fitting = (form for form in forms if width_of(form) <= _LONGEST_NAME)
    return next(fitting, None) or shorten(forms[-1], _LONGEST_NAME, UNICODE)


def count_text(findings: Iterable[Finding]) -> str:
    """Return `2 suggestions, 1 warning`, in the order in which they come."""
    counts = Counter[str](each.severity for each in findings)
    return ", ".join(
        f"{count} {_PLURALS[name] if count > 1 else _SINGULARS.get(name, name)}"
        for name, count in counts.items()
    )


def _path(names: tuple[str, ...]) -> str:
    """Return the end of the path, which is its most specific part.

    Of operations that only call each other the first and the last are shown.
    """
    ops = [name.startswith(_OPERATION) for name in names]
    inner = [all(ops[max(at - 1, 0) : at + 2]) and 0 < at < len(ops) - 1 for at in range(len(ops))]
    named = [name for name, left_out in zip(names, inner, strict=True) if not left_out]
    kept = named[-_MOST_NAMES:]
    return " → ".join(("…", *kept) if len(kept) < len(named) else kept)


def _further(place: Place, paper: Paper, sources: SourceTexts) -> Iterator[str]:
    """Yield the text of the line, and who launched the kernel, one line each."""
    room = paper.width - 11
    if place.location is not None:
        text = sources.lines(place.location.file).get(place.location.line, "").strip()
        if text:
            yield from paper.field("", shorten(paper.text(text), room, paper.glyphs), "36")
    above = " → ".join(place.path[:-1])
    if place.kernel and above:
        yield from paper.field("", shorten(paper.text(f"from {above}"), room, paper.glyphs), "2")


def _gain(finding: Finding) -> str:
    told = (("program", finding.program_gain), ("kernel", finding.kernel_gain))
    parts = [f"{of} {gain}" for of, gain in told if gain is not None]
    if not parts:
        return _NO_GAIN[finding.severity]
    return f"{', '.join(parts)}; confidence {finding.confidence}"


def _evidence(evidence: Evidence) -> str:
    if evidence.samples:
        return f"{evidence.text} ({format_value(evidence.samples, '1')} samples)"
    return evidence.text


def short_place(location: Location | None) -> str:
    """Return `kernel.py:57`, or '' where the place is unknown."""
    return "" if location is None else location.short


def _sass(offsets: tuple[int, int] | None) -> str:
    if offsets is None:
        return ""
    first, last = offsets
    return f"SASS {first:#06x}" if first == last else f"SASS {first:#06x}–{last:#06x}"
