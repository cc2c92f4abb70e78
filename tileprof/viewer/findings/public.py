"""Names of `tileprof.viewer.findings`, loaded when one is first used."""

from __future__ import annotations

from collections.abc import Mapping

from tileprof.analyzer import Report
from tileprof.viewer.findings.author import author_text, chosen
from tileprof.viewer.findings.compiler import compiler_text
from tileprof.viewer.findings.options import VOICES, ReportOptions, Voice
from tileprof.viewer.findings.paper import Paper

__all__ = ["VOICES", "ReportOptions", "Voice", "chosen", "render_reports"]


def render_reports(
    reports: Mapping[str, Report],
    options: ReportOptions,
    *,
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
) -> str:
    """Return all of it, in lines of at most `width` cells (40 at least), ending in a newline.

    Raises UsageError where `options.include` is no regular expression, or matches nothing.
    """
    paper, kept = Paper.of(width, color, unicode), chosen(reports, options.include)
    if options.voice == "compiler":
        lines = compiler_text(kept, options, paper)
    else:
        shown = [name for name, each in kept.items() if options.include is None or _says(each)]
        pages = [author_text(name, kept, options, paper) for name in shown]
        lines = [line for page in pages for line in ["", *page]][1:]
    return "\n".join(lines) + "\n"


def _says(report: Report) -> bool:
    """Return whether the report has findings or kernels to show."""
    return bool(report.findings or report.kernels)
