"""`tileprof diff`: what changed between two profiles, and whether it changed too much."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import terminal
from .parsing import Command, Parser, frames, number
from .view import split_names

if TYPE_CHECKING:
    from tileprof.profile import Frames

USAGE = "OLD NEW [-m METRIC,…] [-t PERCENT] [-d DEPTH] [--frames WHICH] [--json] [--fail-if EXPR]"


def _parser() -> Parser:
    parser = Parser(
        "diff",
        USAGE,
        "Compare two profiles node by node. For kernels whose time changed, show the first "
        "compilation stage at which they differ. With --fail-if, exit with status 1 if the "
        "expression holds for the whole program: 'time > +5%' means more than 5 % longer.",
    )
    add = parser.add_argument
    add("old", metavar="OLD", help="baseline profile")
    add("new", metavar="NEW", help="new profile")
    add("-m", dest="metrics", metavar="METRIC,…", help="metrics to compare")
    add(
        "-t",
        dest="threshold",
        metavar="PERCENT",
        type=number(float),
        help="fold differences below this percentage of the whole (default: 0.5)",
    )
    add("-d", dest="depth", metavar="DEPTH", type=number(int), help="levels to show")
    add(
        "--frames",
        metavar="WHICH",
        type=frames,
        help="frames of Python to compare, as in `tileprof view` (default: user; all for --json)",
    )
    add("--json", action="store_true", help="print the nodes as JSON")
    add("--fail-if", dest="gate", metavar="EXPR", help="for example 'time > +5%%'")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the difference; 1 where the gate's expression holds."""
    args = _parser().parse_args(arguments)
    from tileprof.analyzer.changes import explain
    from tileprof.profile import diff, fail_if, load, with_frames
    from tileprof.viewer import DiffOptions, diff_json, render_changes, render_diff

    old, new = load(args.old), load(args.new)
    which: Frames = args.frames or ("all" if args.json else "user")
    shown = [with_frames(each, which).profile for each in (old, new)]
    found, changes = diff(*shown), explain(old, new)
    # The expression is read before anything is printed: a typing mistake costs no output.
    failed = args.gate is not None and fail_if(found, args.gate)
    if args.json:
        terminal.show(diff_json(found, changes))
    else:
        options = DiffOptions(split_names(args.metrics), args.threshold, args.depth)
        out = sys.stdout
        shape = terminal.width(out), terminal.has_color(out), terminal.has_unicode(out)
        terminal.show(render_diff(found, options, *shape) + render_changes(changes, *shape))
    if failed:
        terminal.complain(f"the gate failed: {args.gate}")
    return int(failed)


COMMAND = Command("diff", "compare two profiles", main, _parser)
