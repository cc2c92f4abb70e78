"""A report for whoever develops the compiler: over all profiles, what of its doing costs the most.

In: reports of one profile, or of a suite.  Out: lines: findings that are the compiler's doing, one
entry for a cause however many kernels have it, those first that would save the most time; then the
candidates that the compiler rejected, by the time of the kernels in which it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from tileprof.analyzer import Finding, Report, Tier
from tileprof.analyzer.findings import TIERS, Severity
from tileprof.analyzer.reasons import TurnedDown, reasons
from tileprof.profile.units import cells, format_percent, format_value
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings.author import joined, runs_text, tiers_text
from tileprof.viewer.findings.entry import count_text, entry, kernel_text, short_place
from tileprof.viewer.findings.options import ReportOptions
from tileprof.viewer.findings.paper import Paper
from tileprof.viewer.grid import Field, Label, arrange
from tileprof.viewer.text import heat

_ORDER: tuple[Severity, ...] = get_args(Severity)
_MOST_NAMED = 4
_LINES_A_REASON = 10
"""Screen lines for each rejection reason that is shown; most of a screen is for findings."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A finding in its profile."""

    file: str
    report: Report
    finding: Finding

    @property
    def saved(self) -> float:
        """Time of the profile's program that would be saved, in ns; 0 where no gain is known."""
        gain = self.finding.program_gain
        return self.report.program.device_time * (1 - 1 / gain.mid) if gain else 0.0

    @property
    def kernel_time(self) -> float:
        """Time of the finding's kernel, in ns."""
        name = self.finding.place.kernel
        return sum(each.case.time for each in self.report.kernels if each.case.name == name)


def compiler_text(
    reports: Mapping[str, Report], options: ReportOptions, paper: Paper
) -> list[str]:  # fmt: skip
    """Return the lines of all reports together."""
    whole = sum(each.program.kernel_time for each in reports.values())
    held = [_Case(name, each, f) for name, each in reports.items() for f in each.findings]
    ours = _causes([each for each in held if each.finding.compiler])
    head = [*_title(reports, whole, paper), *_counts(held, paper)]
    table = [*_reasons(reports, options, whole, paper), *runs_text(_runs(reports), paper)]
    entries = [_entry(each, len(reports) > 1, whole, paper) for each in ours]
    return joined(head, entries, table, options, paper)


def _title(reports: Mapping[str, Report], whole: float, paper: Paper) -> Iterator[str]:
    names = ", ".join(reports)
    time = format_value(whole, "ns") if whole else "not timed"
    yield paper.line(names, "1")
    tiers = {tier for each in reports.values() for tier in each.tiers}
    yield from paper.sentence(tiers_text(tuple(tier for tier in TIERS if tier in tiers)))
    count = sum(len(each.program.kernels) for each in reports.values())
    of = f" of {len(reports)} profiles" if len(reports) > 1 else ""
    if count:
        yield from paper.sentence(f"{count} kernel{'s' if count > 1 else ''}{of}, {time}.")
    else:
        yield from paper.sentence("No kernel ran during the recording.", "33")


def _counts(held: list[_Case], paper: Paper) -> Iterator[str]:
    ours = [each.finding for each in held if each.finding.compiler]
    others = len(held) - len(ours)
    said = f"Caused by the compiler: {count_text(ours) or 'no finding'}."
    if others:
        is_are = "is" if others == 1 else "are"
        said += f" {others} with other causes {is_are} shown by --for author."
    yield from paper.sentence(said)


def _causes(held: list[_Case]) -> list[list[_Case]]:
    """Return findings grouped by rule and advice, those that would save the most time first."""
    groups = dict[tuple[Severity, str, str], list[_Case]]()
    for each in held:
        found = each.finding
        groups.setdefault((found.severity, found.rule, found.compiler), []).append(each)
    for group in groups.values():
        group.sort(key=lambda each: (-each.saved, -each.kernel_time))
    ordered = sorted(groups.items(), key=lambda item: _rank(item[0][0], item[1]))
    return [group for _, group in ordered]


def _rank(severity: Severity, group: list[_Case]) -> tuple[int, float, float]:
    saved = sum(each.saved for each in group)
    return _ORDER.index(severity), -saved, -sum(each.kernel_time for each in group)


def _entry(group: list[_Case], several: bool, whole: float, paper: Paper) -> list[str]:
    """Return the one that would save the most, and the names of the others."""
    first, *others = group
    sources = SourceTexts(first.report.program.profile)
    lines = entry(first.finding, "compiler", paper, sources, first.file if several else "")
    if others:
        names = dict.fromkeys(_name(each, several) for each in others)
        more = ", …" if len(names) > _MOST_NAMED else ""
        lines += paper.field("also in", ", ".join(list(names)[:_MOST_NAMED]) + more)
    kernels = {(each.file, each.finding.place.kernel): each.kernel_time for each in group}
    if len(kernels) > 1 and whole:
        share = format_percent(sum(kernels.values()) / whole)
        lines += paper.field("in all", f"{len(kernels)} kernels with {share} % of the time")
    return lines


def _name(case: _Case, several: bool) -> str:
    name = kernel_text(case.finding.place.kernel) or "the program"
    return f"{name} ({case.file})" if several else name


def _reasons(
    reports: Mapping[str, Report], options: ReportOptions, whole: float, paper: Paper
) -> Iterator[str]:
    """Yield the table of rejected candidates."""
    found = reasons(answers.case for each in reports.values() for answers in each.kernels)
    if not found:
        return
    shown = (
        found if options.include is not None else found[: max(options.height // _LINES_A_REASON, 1)]
    )
    said = (
        "Candidates that the compiler rejected, with the time of their kernels (not the cost of the"
        " choice):"
    )
    yield from ["", *paper.sentence(said)]
    shares = [each.time / whole if whole else 0.0 for each in shown]
    fields = [
        Field("time", cells([each.time for each in shown], "ns"), 1),
        Field("%", [format_percent(each) for each in shares], 0, [heat(each) for each in shares]),
        Field("kernels", [str(each.kernels) for each in shown], 2),
    ]
    grid = arrange(fields, paper.width, paper.glyphs, paper.color)
    yield grid.header("what was not chosen, and why")
    indent = " " * (paper.width - grid.room)
    for row, each in enumerate(shown):
        said = paper.text(f"{each.op}: not {each.candidate}")
        yield grid.row(row, Label(said, notes=(paper.text(_where(each)),)))
        yield from paper.sentence(str(each.reason), "", indent)
    if len(found) > len(shown):
        yield from paper.sentence(f"{len(found) - len(shown)} more; see them with -i RE.", "2")


def _runs(reports: Mapping[str, Report]) -> list[tuple[Tier, str, tuple[str, ...]]]:
    """Return the suggested runs of all profiles, each once, with the rules that it confirms."""
    rules = dict[tuple[Tier, str], dict[str, None]]()
    for report in reports.values():
        for tier, run, surer in report.runs:
            rules.setdefault((tier, run), {}).update(dict.fromkeys(surer))
    return [(tier, run, tuple(surer)) for (tier, run), surer in rules.items()]


def _where(reason: TurnedDown) -> str:
    place = short_place(reason.location)
    name = kernel_text(reason.kernel)
    return f"{name}, {place}" if place else name
