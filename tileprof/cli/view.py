"""`tileprof view`: a profile as a tree, as lines, as JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tileprof.errors import UsageError

from . import terminal
from .interactive import browse, check_terminal
from .parsing import Command, Parser, frames, number, one_of

if TYPE_CHECKING:
    from tileprof.profile import Profile

_SHAPES = {
    "lines": "time and samples by source line",
    "sass": "samples by instruction (SASS), grouped by function",
    "counters": "hardware counters over time",
}
"""Views of `VIEWS` that an option of their name asks for, with its help.  With `--json` it is
`NAME-json`, with `--csv` `NAME-csv`, where there is one."""
_GROUPS = ("module", "phase", "kernel", "line", "thread", "stream", "rank")
USAGE = (
    "FILE… [-m METRIC,…] [-i RE] [-e RE] [-t PERCENT] [-d DEPTH] [--frames WHICH]\n"
    f"{'':21}[--group WHAT] [--layers RE]\n"
    f"{'':21}[--bottom-up | --flat | {' | '.join(f'--{each}' for each in _SHAPES)}]"
    " [--json | --csv]\n"
    "       tileprof view FILE… --interactive [OPTIONS as above]\n"
    "       tileprof view FILE --timeline KERNEL [--cta N] [--span A-B]"
)


def _parser() -> Parser:
    parser = Parser("view", USAGE, "Show a profile as a tree, or as one of the other views.")
    add = parser.add_argument
    add(
        "files",
        metavar="FILE",
        nargs="+",
        help="a .tprof file; several (of the processes of one program) are added up",
    )
    add(
        "-m",
        dest="metrics",
        metavar="METRIC,…",
        help="columns; the first one sorts, and -t applies to it",
    )
    add("-i", dest="include", metavar="RE", help="show only matching nodes, with their paths")
    add("-e", dest="exclude", metavar="RE", help="hide matching nodes; their parents keep the sums")
    add(
        "-t",
        dest="threshold",
        metavar="PERCENT",
        type=number(float),
        help="fold nodes below this percentage of the whole (default: 0.5, or up to 5 where a tree "
        "would have more than 25 lines; 0 for --json and --csv)",
    )
    add("-d", dest="depth", metavar="DEPTH", type=number(int), help="levels to show")
    add(
        "--frames",
        metavar="WHICH",
        type=frames,
        help="Python frames to show: user (your files, and PyTorch modules), library (all except "
        "functions that only forward calls), or all (default: user; all for --json and --csv)",
    )
    add(
        "--layers",
        metavar="RE",
        help="show the layers whose name in the model matches, such as 'h\\.3$', one by one; or "
        "all. For files recorded with --layers",
    )
    add(
        "--group",
        metavar="WHAT",
        type=one_of(*_GROUPS),
        help=f"one top-level node per {', '.join(_GROUPS[:-1])} or {_GROUPS[-1]}",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--bottom-up", action="store_true", help="hot functions first, with their callers"
    )
    shape.add_argument("--flat", action="store_true", help="one line per function, kernel or scope")
    for name, text in _SHAPES.items():
        shape.add_argument(f"--{name}", action="store_true", help=text)
    shape.add_argument(
        "--timeline", metavar="KERNEL", help="timeline of the warps of one thread block (CTA)"
    )
    add(
        "--cta",
        metavar="N",
        type=number(int),
        help="with --timeline: which CTA (default: the median one)",
    )
    add("--span", metavar="A-B", type=_span, help="with --timeline: only from A to B µs")
    add(
        "--interactive",
        action="store_true",
        help="open a tree to fold, search, sort and group with keys, with source, machine code and "
        "findings beside it; the other options set its first view (needs the extra tui)",
    )
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--json", action="store_true", help="print the nodes as JSON")
    data.add_argument("--csv", action="store_true", help="print the nodes as CSV")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the view."""
    args = _parser().parse_args(arguments)
    if args.timeline is not None:
        return _timeline(args)
    if args.interactive:
        _check_interactive(args)
    if args.cta is not None or args.span is not None:
        name = "--span" if args.cta is None else "--cta"
        raise UsageError(f"`{name}` needs `--timeline`", hint="Add `--timeline KERNEL`.")
    if args.sass and (args.metrics is not None or args.depth is not None):
        name = "-m" if args.depth is None else "-d"
        raise UsageError(
            f"`{name}` is for nodes of the tree", hint="With --sass use -i, -e and -t."
        )
    if args.group is not None:
        for name in ("bottom_up", "flat", *_SHAPES):
            if getattr(args, name):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"`--group` and `{option}` are two views", hint="Choose one.")
    from tileprof.viewer import ViewOptions, render_view

    options = ViewOptions(
        metrics=split_names(args.metrics),
        include=args.include,
        exclude=args.exclude,
        threshold=args.threshold,
        depth=args.depth,
        mode="bottom-up" if args.bottom_up else "flat" if args.flat else "top-down",
        frames=args.frames,
        layers="" if args.layers == "all" else args.layers,
        group=None if args.group == "rank" else args.group,
    )
    profile = _by_rank(args.files) if args.group == "rank" else _added_up(args.files)
    if args.interactive:
        from tileprof.tui import OneProfile

        browse(OneProfile(profile), options)
        return 0
    text = render_view(
        profile,
        options,
        _view(args),
        width=terminal.width(sys.stdout),
        color=terminal.has_color(sys.stdout),
        unicode=terminal.has_unicode(sys.stdout),
    )
    if len(args.files) > 1 and not (args.json or args.csv):
        how = "a node for each rank" if args.group == "rank" else "added up"
        text = f"{len(args.files)} profiles, {how}.\n{text}"
    terminal.show(text)
    return 0


def _check_interactive(args: argparse.Namespace) -> None:
    for name in ("json", "csv", *_SHAPES):
        if getattr(args, name):
            raise UsageError(f"`--interactive` and `--{name}` are two views", hint="Choose one.")
    check_terminal("--interactive")


def _added_up(files: Sequence[str]) -> Profile:
    """Return the profile of one file, or the sum of several."""
    from tileprof.profile import load, merge

    profiles = [load(each) for each in files]
    return profiles[0] if len(profiles) == 1 else merge(profiles)


def _by_rank(files: Sequence[str]) -> Profile:
    """Return the sum of profiles with a node at the top for each rank, or file without one."""
    from tileprof.profile import load, merge_by, rank_of

    profiles = [load(each) for each in files]
    stems = [Path(each).name.removesuffix(".tprof") for each in files]
    names = []
    for file, stem, profile in zip(files, stems, profiles):
        rank = rank_of(stem, profile)
        alone = stem if stems.count(stem) == 1 else file
        names.append(alone if rank is None else f"rank {rank}")
    return merge_by(profiles, names)


def _view(args: argparse.Namespace) -> str:
    """Return the name of the view that was asked for; UsageError where it has no data form."""
    from tileprof.viewer import VIEWS

    shape = next((name for name in _SHAPES if getattr(args, name)), "")
    form = "csv" if args.csv else "json" if args.json else ""
    name = "-".join(filter(None, (shape, form))) or "tree"
    if name not in VIEWS:
        forms = [f"`--{each}`" for each in ("json", "csv") if f"{shape}-{each}" in VIEWS]
        hint = f"Use {forms[0]}." if forms else f"Leave out `--{form}`."
        raise UsageError(f"`--{shape}` has no `--{form}`", hint=hint)
    return name


def _span(text: str) -> tuple[float, float]:
    begin, dash, end = text.partition("-")
    try:
        if dash:
            return float(begin), float(end)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"`{text}` is not `A-B`, two times in µs")


def _timeline(args: argparse.Namespace) -> int:
    """Print one CTA."""
    if args.json or args.csv:
        raise UsageError("`--timeline` has no `--json` or `--csv`", hint="Use `tileprof export`.")
    if len(args.files) > 1:
        raise UsageError("`--timeline` shows one CTA of one file", hint="Give one FILE.")
    from tileprof.profile import load
    from tileprof.viewer import render_cta

    text = render_cta(
        load(args.files[0]),
        args.timeline,
        args.cta,
        args.span,
        width=terminal.width(sys.stdout),
        color=terminal.has_color(sys.stdout),
        unicode=terminal.has_unicode(sys.stdout),
    )
    terminal.show(text)
    return 0


def split_names(text: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(n.strip() for n in (text or "").split(",") if n.strip())


COMMAND = Command("view", "show a profile", main, _parser)
