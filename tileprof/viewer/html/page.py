"""The page of a report: its parts and its data put together.

In: a report.  Out: the text of an HTML page, or a file.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from tileprof.analyzer.report import Report
from tileprof.errors import OutputError
from tileprof.files import replace_bytes
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.html.report_data import findings_of, header_of, kernels_of, roofs_of, runs_of
from tileprof.viewer.html.timeline_data import timelines_of
from tileprof.viewer.html.tree_data import kept_tree, tree_of
from tileprof.viewer.text import encodable

_STYLES = ("style.css", "views.css", "details.css", "timelines.css")
_SCRIPTS = (
    "core.js", "rows.js", "tree_model.js", "node_facts.js", "finding_parts.js", "findings.js",
    "tree.js", "flame.js", "roofline.js", "kernels.js", "code_model.js", "code_source.js",
    "code_machine.js", "code.js", "time_canvas.js", "bars.js", "curves.js", "time_words.js",
    "warp_timeline.js", "event_timeline.js", "counter_timeline.js", "timelines.js", "main.js",
)  # fmt: skip
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""Within strings of JSON: nothing in them can end the element that they stand in."""


def write_html(report: Report, path: str | Path) -> None:
    """Write the page of a report; OutputError where the file cannot be written."""
    try:
        replace_bytes(path, report_page(report).encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}", hint="Choose another file with --html FILE."
        ) from error


def report_page(report: Report) -> str:
    """Return the text of the page."""
    title = report.program.profile.tables.provenance.get("command", "") or "report"
    parts = {
        "title": html.escape(encodable(title)),
        "style": "\n".join(_asset("styles", name) for name in _STYLES),
        "data": _json(report_data(report)),
        "script": "\n".join(_asset("scripts", name) for name in _SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _asset("page.html"))


def report_data(report: Report) -> dict[str, Any]:
    """Return all that the page shows, as JSON values."""
    tree, moved = kept_tree(report.program.profile)
    code = CodeData(report)
    return {
        "header": header_of(report),
        "runs": runs_of(report),
        "findings": findings_of(report, code, moved),
        "kernels": kernels_of(report, code, moved),
        "roofs": roofs_of(report),
        "tree": tree_of(tree),
        "timelines": timelines_of(report.program.profile, code, moved),
        "code": code.document(),
    }


def _asset(*path: str) -> str:
    return resources.files("tileprof.viewer.html").joinpath(*path).read_text(encoding="utf-8")


def _json(document: dict[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text
