"""What our tools say of one kernel, as text: remarks, the report, the annotated listing.

In: the arguments of `tileprof compile`, or a profile.  Out: texts in lines of at most 120 cells,
without folders of the machine; findings one by one, the first one first.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from case_studies.advice.telling import plain
from tileprof import cli
from tileprof.analyzer import Finding, Report, analyze
from tileprof.errors import TileprofError
from tileprof.profile import Profile
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.findings.entry import entry
from tileprof.viewer.findings.paper import Paper

__all__ = ["listing_of", "printed", "texts_of"]

WIDTH, REPORT_WIDTH = 120, 100
HEIGHT = 60
"""Lines of a report."""
THRESHOLDS = (1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0)
"""Percent of a function's samples below which instructions are folded; the first that fits."""
MOST_LINES = 70
"""Of a listing."""


def printed(arguments: Sequence[str]) -> str:
    """What a command of `tileprof` prints; TileprofError with what it says where it fails."""
    out, problems = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(problems):
        code = cli.main([*arguments])
    if code:
        raise TileprofError(f"tileprof {' '.join(arguments)}: {problems.getvalue().strip()}")
    return plain(out.getvalue())


def texts_of(profile: Profile, name: str) -> dict[str, Any]:
    """Of a profile: the report, its findings, and the listing with its threshold."""
    report = analyze(profile)
    text = render_reports({name: report}, ReportOptions(height=HEIGHT), width=REPORT_WIDTH)
    listing, threshold = listing_of(profile)
    return {
        "report": plain(text), "findings": [_finding(report, each) for each in report.findings],
        "listing": plain(listing), "threshold": threshold,
    }  # fmt: skip


def listing_of(profile: Profile) -> tuple[str, float]:
    """The annotated machine code, and from which share on an instruction is shown: as many lines
    as a page can have; UsageError where there are no samples."""
    text = ""
    for threshold in THRESHOLDS:
        text = render_view(profile, ViewOptions(threshold=threshold), "blame", width=WIDTH)
        if text.count("\n") <= MOST_LINES:
            break
    return text, threshold


def _finding(report: Report, finding: Finding) -> dict[str, Any]:
    paper = Paper.of(REPORT_WIDTH, color=False, unicode=True)
    lines = entry(finding, "author", paper, SourceTexts(report.program.profile))
    return {
        "rule": finding.rule, "severity": finding.severity, "kernel": finding.place.kernel,
        "title": plain(finding.title), "printed": plain("\n".join(lines)),
    }  # fmt: skip
