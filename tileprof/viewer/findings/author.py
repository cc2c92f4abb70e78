"""A report for whoever wrote the program: what was analysed, findings that fit a screen, what
another run would add.

In: a report.  Out: lines. The most useful findings come first; what does not fit is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tileprof.analyzer import Finding, Report, Tier
from tileprof.analyzer.cases import Program
from tileprof.analyzer.findings import TIERS
from tileprof.analyzer.program.host import HostTime
from tileprof.errors import UsageError
from tileprof.profile.transform.operations import regular
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings.account import account_text, gains
from tileprof.viewer.findings.entry import count_text, entry, kernel_text, short_place
from tileprof.viewer.findings.evidence import WORDS
from tileprof.viewer.findings.options import ReportOptions
from tileprof.viewer.findings.paper import Paper
from tileprof.viewer.notes import missing_from, title_of, wall_seconds

BELOW = 3
"""Lines of a screen for what does not fit, and for the prompt."""
_LEAST_WHOLE = 2
"""Findings that are told whole where they fit, rather than named in a line with those after."""
_MOST_TITLES = 5
"""Largest number of suggestions and symptoms that are named where they do not fit."""
_BARELY = 0.05
"""Part of a kernel's time below which what findings of the program take of it is no suggestion."""


def author_text(
    name: str, reports: Mapping[str, Report], options: ReportOptions, paper: Paper
) -> list[str]:
    """Return the lines of the report of this name."""
    report = reports[name]
    head = [
        *_title(name, report, paper, many=len(reports) > 1),
        *_about(report, options, paper),
        *paper.sentence(tiers_text(report.tiers)),
    ]
    tail = [*_together(report, paper), *runs_text(report.runs, paper)]
    sources = SourceTexts(report.program.profile)
    entries = [entry(each, "author", paper, sources) for each in report.findings]
    return joined(
        head,
        entries,
        tail,
        options,
        paper,
        lambda shown: _titles(report.findings[shown:], paper),
        lambda shown: f": {count_text(report.findings[shown:])}",
    )


def joined(
    head: list[str],
    entries: list[list[str]],
    tail: list[str],
    options: ReportOptions,
    paper: Paper,
    titles: Callable[[int], list[str]] = lambda shown: [],
    rest: Callable[[int], str] = lambda shown: "",
) -> list[str]:
    """Return a report's lines; of the entries those that fit, and a sentence on the others.

    `rest` says what all entries from a number on are, after the lines of `titles`.
    """
    room = None if options.include is not None else options.height - len(head) - len(tail) - BELOW
    shown = _fitting(entries, room)
    if room is not None and _LEAST_WHOLE < shown < len(entries):
        shown = max(_LEAST_WHOLE, _fitting(entries[:shown], room - len(titles(shown))))
    lines = head + [line for each in entries[:shown] for line in ["", *each]]
    if room is not None and shown < len(entries):
        said = f"{len(entries) - shown} more{rest(shown)}; see them with -i RE (-i . shows all)."
        left = max(0, room - len(lines) + len(head))
        lines += ["", *titles(shown)[:left], *paper.sentence(said, "2")]
    return lines + tail


def _titles(findings: Sequence[Finding], paper: Paper) -> list[str]:
    """Return a line for each of the first suggestions and symptoms: the program's gain, the rule,
    the title."""
    named = [each for each in findings if each.severity in ("suggestion", "symptom")]
    return [
        paper.line(f"also {_gain(each)}, {each.rule}: {each.title}")
        for each in named[:_MOST_TITLES]
    ]


def _gain(finding: Finding) -> str:
    return str(finding.program_gain or finding.kernel_gain or finding.severity)


def _fitting(entries: list[list[str]], room: int | None) -> int:
    """Return how many entries, with a line between them, fit; at least one, and all for None."""
    if room is None:
        return len(entries)
    for shown, each in enumerate(entries):
        room -= len(each) + 1
        if room < 0:
            return max(shown, 1)
    return len(entries)


def tiers_text(tiers: tuple[Tier, ...]) -> str:
    """Return which kinds of evidence there are, and which there are not."""
    seen = ", ".join(WORDS[each] for each in tiers) or "nothing"
    # Where devices were timed, the host's time is in the account of theirs.
    missed = ", ".join(WORDS[each] for each in TIERS if each not in (*tiers, "host"))
    return f"Recorded: {seen}." + (f" Not recorded: {missed}." if missed else "")


def _title(name: str, report: Report, paper: Paper, many: bool) -> Iterator[str]:
    profile = report.program.profile
    titles = title_of(profile, paper.width, paper.glyphs, paper.color)
    if many or not titles:
        yield paper.line(name, "1")
    yield from titles
    yield from missing_from(profile, paper.width, paper.glyphs, paper.color)


def _about(report: Report, options: ReportOptions, paper: Paper) -> Iterator[str]:
    """Yield how much was analysed, and the result."""
    program, findings = report.program, report.findings
    if not len(program.profile):
        yield from paper.sentence("The profile is empty: nothing was recorded.", "33")
        return
    if not program.kernels:
        counted = f" {count_text(findings)}." if findings else _NOTHING * (program.host.total > 0)
        yield from paper.sentence(_without_kernels(program.host) + counted)
        yield from _training(program, paper)
        yield from _phases(program, paper)
        return
    count = len(program.kernels)
    time = format_value(program.kernel_time, "ns") if program.kernel_time else "not timed"
    said = f"{count} kernel{'s' if count > 1 else ''}, {time}{_of_the_run(program)}: "
    if report.account is not None and options.include is None:
        yield from paper.sentence(" ".join(gains(report.account)), "1")
    yield from paper.sentence(f"{said}{count_text(findings) or 'no optimisation found'}.")
    yield from _training(program, paper)
    if report.account is not None and options.include is None:
        yield from account_text(report.account, paper)
    if findings and options.include is None:
        yield from _silent(report, paper)


def _training(program: Program, paper: Paper) -> Iterator[str]:
    """Yield how long a step of a training takes, and its parts."""
    steps = program.training
    if steps is None:
        return
    untrained = steps.parts.untrained / steps.time_ns
    apart = untrained >= _LEAST_UNTRAINED
    without = f" ({100 * untrained:.0f} % in modules without a backward pass)" if apart else ""
    named = (
        ("data", steps.parts.data),
        ("forward", steps.parts.forward),
        ("backward", steps.parts.backward),
        ("optimizer", steps.parts.optimizer),
    )
    whole = sum(time for _, time in named)
    parts = ", ".join(
        f"{name} {100 * time / whole:.0f} %{without * (name == 'forward')}"
        for name, time in named
        if time >= _LEAST_PHASE * whole
    )
    where = f"{short_place(steps.location)}, {steps.count:,} steps"
    whose = "" if steps.of == "host" else " of the devices' time"
    time = format_value(steps.time_ns, "ns")
    first = "" if program.steps.knows_setup else ", the first included"
    mean = f"takes {time}{whose} on average{first}"
    yield from paper.sentence(f"A step ({where}) {mean}: {parts}.")


def _phases(program: Program, paper: Paper) -> Iterator[str]:
    """Yield which parts of the time were training, generation, evaluation and so on."""
    whole = sum(each.time_ns for each in program.phases)
    told = [
        f"{each.name} {format_percent(each.time_ns / whole)} %"
        + (f" ({short_place(each.location)})" if each.location and each.name in _AT else "")
        for each in program.phases
        if each.time_ns >= _LEAST_PHASE * whole
    ]
    if len(told) > 1 or any(each.name == "generation" for each in program.phases):
        imports = " without imports" * bool(program.host.imports)
        time = format_value(whole, "ns")
        yield from paper.sentence(
            f"Phases of the host's time{imports} ({time}): {', '.join(told)}."
        )


_NOTHING = " No line or operation stands out."
_LITTLE = 0.1
"""Share of a run's time below which it is said that kernels took only so much."""
_NEARLY_ALL_IMPORTS = 0.9
"""Share of the host's time in imports above which it is said what findings are of."""
_LEAST_UNTRAINED = 0.05
"""Least share of a step in forward passes without a backward pass that is named."""
_LEAST_PHASE = 0.005
"""Least share of the host's time of a phase that is named."""
_AT = ("generation", "loading", "evaluation", "inference")
"""Phases that are named with the line that has most of them."""


def _of_the_run(program: Program) -> str:
    """Return which part of a run kernels on a CPU took, if little: no account has the rest."""
    ran, devices = wall_seconds(program.profile) * 1e9, {each.device for each in program.kernels}
    if devices != {"cpu"} or not 0 < program.kernel_time < _LITTLE * ran:
        return ""
    share = format_percent(program.kernel_time / ran)
    return f" ({share} % of the {format_value(ran, 'ns')} that the program ran)"


def _without_kernels(host: HostTime) -> str:
    """Describe a program that ran nothing on a device."""
    if not host.total:
        return "No kernel ran during the recording."
    imports = format_value(host.imports, "ns")
    part = f", {imports} of it importing libraries" if host.imports else ""
    if host.imports > _NEARLY_ALL_IMPORTS * host.total:
        part += f"; findings are of the other {format_value(host.total - host.imports, 'ns')}"
    return f"No kernel ran; the host's threads took {format_value(host.total, 'ns')}{part}."


def _silent(report: Report, paper: Paper) -> Iterator[str]:
    """Yield how much time no finding covers, of kernels or of the program."""
    held = report.account.kernels if report.account is not None else ()
    named = {each.case for each in held if each.named > _BARELY * each.time}
    judged = [each for each in report.kernels if not each.findings and each.case not in named]
    small = len(report.program.kernels) - len(report.kernels)
    if judged:
        share = format_percent(sum(each.case.share for each in judged))
        kernels = f"{len(judged)} kernel{'s' if len(judged) > 1 else ''}"
        said = f"No optimisation found for {kernels} ({share} % of kernel time)."
        yield from paper.sentence(said, "2")
    if small:
        said = f"Not judged: {small} with less than 1 % of kernel time each."
        yield from paper.sentence(said, "2")


def _together(report: Report, paper: Paper) -> Iterator[str]:
    """Yield, for kernels with several suggestions, the gain of all of them together."""
    several = [each for each in report.kernels if each.together is not None]
    if not several:
        return
    yield from ["", *paper.sentence("All suggestions of a kernel together (gains do not add up):")]
    for each in several:
        name, share = kernel_text(each.case.name), format_percent(each.case.share)
        yield paper.line(f"  {each.together}  {name}, {share} % of kernel time")


def runs_text(runs: Sequence[tuple[Tier, str, tuple[str, ...]]], paper: Paper) -> Iterator[str]:
    """Yield runs that would add evidence, those that confirm a finding of this report first."""
    if not runs:
        return
    yield from ["", *paper.sentence("To know more:")]
    for _, run, rules in sorted(runs, key=lambda each: not each[2]):
        surer = f"; would confirm: {', '.join(rules)}" if rules else ""
        yield from paper.sentence(f"{run}{surer}", "", "  ")


def chosen(reports: Mapping[str, Report], include: str | None) -> dict[str, Report]:
    """Return the reports with what matches `include`: by kernel, path or rule.

    Raises UsageError where nothing of any report does.
    """
    if include is None:
        return dict(reports)
    kept = {name: _matching(report, include) for name, report in reports.items()}
    if not any(each.findings or each.kernels for each in kept.values()):
        names = dict.fromkeys(
            kernel_text(each.case.name) for report in reports.values() for each in report.kernels
        )
        longest = ", ".join(list(names)[:5])
        raise UsageError(
            f"no kernel, path or rule matches `{include}`",
            hint=f"The longest kernels are: {longest}." if longest else "No kernel was recorded.",
        )
    return kept


def _matching(report: Report, include: str) -> Report:
    pattern = regular(include)

    def matches(finding: Finding) -> bool:
        names = (finding.rule, finding.place.kernel, *finding.place.path)
        return any(pattern.search(name) for name in names)

    findings = tuple(each for each in report.findings if matches(each))
    named = {each.place.kernel for each in findings}
    kernels = tuple(
        each
        for each in report.kernels
        if each.case.name in named or pattern.search(each.case.name)
    )  # fmt: skip
    rules = {each.rule for each in findings}
    runs = tuple(
        (tier, run, tuple(rule for rule in surer if rule in rules))
        for tier, run, surer in report.runs
    )
    return replace(report, findings=findings, kernels=kernels, runs=runs)
