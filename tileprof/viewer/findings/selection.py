"""Which findings of a report are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tileprof.analyzer import Finding, Report
from tileprof.errors import UsageError
from tileprof.profile.transform.operations import regular


def chosen(reports: Mapping[str, Report], include: str | None) -> dict[str, Report]:
    """Return the reports with what matches `include`: by kernel, path or rule.

    Raises UsageError where nothing of any report does.
    """
    if include is None:
        return dict(reports)
    kept = {name: _matching(report, include) for name, report in reports.items()}
    if not any(each.findings or each.kernels for each in kept.values()):
        names = dict.fromkeys(
            each.case.name for report in reports.values() for each in report.kernels
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
