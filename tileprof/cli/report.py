"""`tileprof report`: what to change in a program, and what it would bring."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tileprof.errors import UsageError
from tileprof.progress import working

from . import sarif, terminal
from .parsing import Command, Parser, frames, one_of

if TYPE_CHECKING:
    from tileprof.analyzer import Fault, Report

USAGE = "FILE… [-i RE] [--for author|compiler] [--json | --sarif OUT | --html OUT [--frames WHICH]]"
_HEIGHT = 55
"""Lines of a report that goes to no terminal."""


def _parser() -> Parser:
    parser = Parser(
        "report",
        USAGE,
        "Report what costs time and why, what to change, and the expected gain. Profiles are "
        "reported separately; --for compiler merges them.",
    )
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="a .tprof file")
    add(
        "-i",
        dest="include",
        metavar="RE",
        help="show all findings whose kernel, path or rule matches",
    )
    add(
        "--for",
        dest="voice",
        metavar="WHO",
        default="author",
        type=one_of("author", "compiler"),
        help="advice for whom: author (of the program or kernel; default) or compiler (its "
        "developers)",
    )
    add(
        "--frames",
        metavar="WHICH",
        type=frames,
        help="with --html: Python frames in the page's tree, as in `tileprof view`",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--json", action="store_true", help="print the full report as JSON, one line per FILE"
    )
    shape.add_argument(
        "--sarif",
        metavar="OUT",
        help="write findings as SARIF, which editors and code hosts show at source lines",
    )
    shape.add_argument("--html", metavar="OUT", help="write a self-contained HTML page")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the report."""
    args = _parser().parse_args(arguments)
    if args.html is not None:
        return _page(args)
    if args.frames is not None:
        raise UsageError("`--frames` needs `--html`", hint="Add `--html OUT`.")
    reports, status = _analyzed(args.files)
    if args.sarif is not None:
        sarif.write(args.sarif, sarif.of_reports(reports, args.include))
        terminal.complain(f"wrote {args.sarif}")
    else:
        terminal.show(_json(reports, args) if args.json else _text(reports, args))
    return status


def _analyzed(files: Sequence[str]) -> tuple[dict[str, Report], int]:
    """Return the reports by file, and the exit code: 1 if a rule failed, which is complained of."""
    from tileprof.analyzer import analyze
    from tileprof.profile import load
    from tileprof.viewer.findings.faults import fault_text

    reports: dict[str, Report] = {}
    faults: list[Fault] = []
    with working("", total=len(files)) as task:
        for task.done, file in enumerate(files):
            task.tell(f"analysing {file}")
            reports[file] = analyze(load(file), faults=faults)
    for each in faults:
        terminal.complain(fault_text(each))
    return reports, int(bool(faults))


def _page(args: argparse.Namespace) -> int:
    """Write the page of one profile."""
    if len(args.files) > 1 or args.include is not None or args.voice != "author":
        raise UsageError(
            "`--html` writes the page of one whole profile",
            hint="Give one FILE, without -i and --for; the page has filters.",
        )
    from tileprof.viewer.html import write_html

    reports, status = _analyzed(args.files)
    write_html(reports[args.files[0]], args.html, args.frames or "user")
    terminal.complain(f"wrote {args.html}")
    return status


def _json(reports: Mapping[str, Report], args: argparse.Namespace) -> str:
    from tileprof.analyzer.json_form import to_json
    from tileprof.viewer.findings import chosen

    kept = chosen(reports, args.include)
    return "".join(json.dumps(to_json(each)) + "\n" for each in kept.values())


def _text(reports: Mapping[str, Report], args: argparse.Namespace) -> str:
    from tileprof.viewer.findings import ReportOptions, render_reports

    out = sys.stdout
    return render_reports(
        reports,
        ReportOptions(args.voice, args.include, _height()),
        width=terminal.width(out),
        color=terminal.has_color(out),
        unicode=terminal.has_unicode(out),
    )


def _height() -> int:
    """Lines of the terminal."""
    return (
        shutil.get_terminal_size((120, _HEIGHT)).lines
        if terminal.is_terminal(sys.stdout)
        else _HEIGHT
    )


COMMAND = Command("report", "report what to change, and the expected gain", main, _parser)
