"""`tileprof diff`: what changed between two profiles, and whether it changed too much."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileprof.errors import UsageError

from . import terminal
from .interactive import browse, check_terminal
from .parsing import Command, Parser, frames, number
from .view import split_names

if TYPE_CHECKING:
    from tileprof.profile import Frames

USAGE = (
    "OLD NEW [-m METRIC,…] [-t PERCENT] [-d DEPTH] [--frames WHICH] [--json] [--fail-if EXPR]\n"
    "       tileprof diff OLD NEW --interactive [-m METRIC,…] [-t PERCENT] [--frames WHICH]"
)


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
        help="Python frames to compare, as in `tileprof view` (default: user; all for --json)",
    )
    add("--json", action="store_true", help="print the nodes as JSON")
    add(
        "--interactive",
        action="store_true",
        help="open a tree to fold, search and sort with keys, with source, machine code and "
        "findings of NEW beside it (needs the extra tui)",
    )
    add(
        "--fail-if",
        dest="gate",
        metavar="EXPR",
        help="exit with status 1 if EXPR holds, for example 'time > +5%%'",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the difference; 1 where the gate's expression holds."""
    args = _parser().parse_args(arguments)
    if args.interactive:
        return _interactive(args)
    from tileprof.analyzer.changes import explain
    from tileprof.profile import as_shown, diff, fail_if, load
    from tileprof.viewer import DiffOptions, diff_json, render_changes, render_diff

    old, new = load(args.old), load(args.new)
    which: Frames = args.frames or ("all" if args.json else "user")
    shown = [as_shown(each, which).profile for each in (old, new)]
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


def _interactive(args: argparse.Namespace) -> int:
    """Show the difference until the reader leaves."""
    for name, given in (("--json", args.json), ("--fail-if", args.gate), ("-d", args.depth)):
        if given:
            raise UsageError(
                f"`--interactive` and `{name}` exclude each other", hint="Leave out one of them."
            )
    check_terminal("--interactive")
    from tileprof.profile import load
    from tileprof.tui import TwoProfiles
    from tileprof.viewer import ViewOptions

    options = ViewOptions(
        metrics=split_names(args.metrics), threshold=args.threshold, frames=args.frames
    )
    browse(TwoProfiles(load(args.old), load(args.new)), options)
    return 0


COMMAND = Command("diff", "compare two profiles", main, _parser)
