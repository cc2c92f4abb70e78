"""`tileprof diff`: what changed between two profiles, and whether it changed too much."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import terminal
from .view import split_names

__all__ = ["add"]


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "diff",
        help="compare two profiles",
        description="Compare two profiles node by node. With --fail-if, exit with 1 where the "
        "expression holds for the whole program.",
    )
    add = parser.add_argument
    add("old", metavar="OLD", help="the profile to compare with")
    add("new", metavar="NEW", help="the profile to judge")
    add("-m", dest="metrics", metavar="METRIC,…", help="what to compare")
    add("-t", dest="threshold", metavar="PERCENT", type=float, help="fold differences below (0.5)")
    add("-d", dest="depth", metavar="DEPTH", type=int, help="levels to show")
    add("--json", action="store_true", help="the nodes as JSON")
    add("--fail-if", dest="gate", metavar="EXPR", help="for example 'time > +5%%'")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print the difference; 1 where the gate's expression holds."""
    from tileprof.profile import diff, fail_if, load
    from tileprof.viewer import DiffOptions, diff_json, render_diff

    found = diff(load(args.old), load(args.new))
    # The expression is read before anything is printed: a typing mistake costs no output.
    failed = args.gate is not None and fail_if(found, args.gate)
    if args.json:
        terminal.show(diff_json(found))
    else:
        options = DiffOptions(split_names(args.metrics), args.threshold, args.depth)
        out = sys.stdout
        text = render_diff(
            found,
            options,
            terminal.width(out),
            terminal.has_color(out),
            terminal.has_unicode(out),
        )
        terminal.show(text)
    if failed:
        print(f"tileprof: the gate failed: {args.gate}", file=sys.stderr)
    return int(failed)
