"""`tileprof run`: run a program and record where its time goes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprof.errors import OutputError, UsageError

from . import terminal
from .later import refuse

if TYPE_CHECKING:
    from tileprof.profile import Profile
    from tileprof.profiler import ProgramTarget

__all__ = ["add", "main"]

USAGE = (
    "tileprof run [OPTIONS] SCRIPT [ARGS…]\n"
    "       tileprof run [OPTIONS] -m MODULE [ARGS…]\n"
    "       tileprof run [OPTIONS] pytest [ARGS…]"
)
SUMMARY_PERCENT = 1.0
"""What the tree at the end folds: it shows the hottest part, `tileprof view` the rest."""
LATER = {
    "pc_sampling": "--pc-sampling",
    "pc_sampling_exact": "--pc-sampling-exact",
    "metrics": "--metrics",
    "timeline": "--timeline",
    "duty": "--duty",
    "every": "--every",
}
"""Options of the contract that are not built yet, by their name in the parsed arguments."""


def add(commands: Any) -> None:
    """Register the command for `tileprof --help`."""
    parser = commands.add_parser(
        "run",
        help="run a program and record where its time goes",
        usage=USAGE,
        description="Run a program, write STEM.tprof, and print the hottest part of its tree to "
        "standard error.  The program's own output and its exit code are untouched.",
    )
    _options(parser)
    parser.set_defaults(execute=lambda args: main(["--help"]))


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", dest="output", metavar="FILE", help="where to write (default: STEM.tprof here)")
    add("--device", metavar="D", help="interpreter, cpu or cuda:N (default: where the arrays are)")
    add(
        "--context",
        choices=("scopes", "python", "full"),
        default="full",
        help="what a call path is made of (default: full)",
    )
    add(
        "--instrument",
        default="scopes",
        metavar="MODE",
        help="inside kernels: off, scopes, stages, ops or sample[=PERIOD] (default: scopes)",
    )
    add("--debug", action="store_true", help="run kernels line by line as plain Python")
    add("--quiet", action="store_true", help="do not print the tree at the end")
    add("--pc-sampling", nargs="?", const="", metavar="PERIOD", help="not available yet")
    add("--pc-sampling-exact", action="store_true", help="not available yet")
    add("--metrics", metavar="SET|NAME,…", help="not available yet")
    add("--timeline", action="store_true", help="not available yet")
    add("--duty", metavar="P", help="not available yet")
    add("--every", metavar="N", help="not available yet")


@dataclass(frozen=True, slots=True)
class _Split:
    options: list[str]
    module: str | None
    program: list[str]


def _split(argv: Sequence[str], parser: argparse.ArgumentParser) -> _Split:
    """Cut the command line where the program begins: everything after it is the program's."""
    takes_value = {
        text
        for action in parser._actions
        if action.nargs is None and action.option_strings
        for text in action.option_strings
    }
    at = 0
    while at < len(argv):
        token = argv[at]
        if token == "-m":
            if at + 1 == len(argv):
                raise UsageError("`-m` needs the name of a module", hint=f"usage: {USAGE}")
            return _Split(list(argv[:at]), argv[at + 1], list(argv[at + 2 :]))
        if token == "--":
            return _Split(list(argv[:at]), None, list(argv[at + 1 :]))
        if not token.startswith("-") or token == "-":
            return _Split(list(argv[:at]), None, list(argv[at:]))
        at += 2 if token in takes_value else 1
    return _Split(list(argv), None, [])


def main(argv: Sequence[str]) -> int:
    """Run the program under a session and give the program's exit code."""
    parser = argparse.ArgumentParser(prog="tileprof run", usage=USAGE)
    _options(parser)
    split = _split(argv, parser)
    args = parser.parse_args(split.options)
    if split.module is None and not split.program:
        raise UsageError("there is no program to run", hint=f"usage: {USAGE}")
    _refuse_later(args)
    _environment(args)
    return _record(args, split)


def _refuse_later(args: argparse.Namespace) -> None:
    if args.metrics is not None and args.pc_sampling is not None:
        raise UsageError("`--metrics` and `--pc-sampling` exclude each other in one process")
    for name, shown in LATER.items():
        if getattr(args, name) not in (None, False):
            refuse(f"`{shown}`")
    mode = args.instrument.partition("=")[0]
    if mode == "sample":
        refuse("`--instrument sample`")
    if args.instrument not in ("off", "scopes", "stages", "ops"):
        raise UsageError(
            f"there is no `--instrument {args.instrument}`",
            hint="Modes are: off, scopes, stages, ops, sample[=PERIOD].",
        )


def _environment(args: argparse.Namespace) -> None:
    # Child processes of the program must see the same choices.
    if args.device is not None:
        from tileprof.runtime.selection import parse_device

        os.environ["TILEPROF_DEVICE"] = parse_device(args.device)
    if args.debug:
        os.environ["TILEPROF_DEBUG"] = "1"
        os.environ.setdefault("TILEPROF_CHECK", "1")


def _record(args: argparse.Namespace, split: _Split) -> int:
    from tileprof.profiler import check_target, run_program, start

    target, rest = _target(split)
    check_target(target)
    path = Path(args.output or f"{target.stem}.tprof")
    _check_writable(path)
    session = start(path, context=args.context, instrument=args.instrument)
    code = run_program(target, rest, session)
    try:
        profile = session.finalize()
    except OutputError as error:
        # The program's exit code is its own; that its profile is lost is said, not returned.
        print(f"tileprof: {error}", file=sys.stderr)
        return code
    if not args.quiet:
        _summary(profile, session.path)
    return code


def _target(split: _Split) -> tuple[ProgramTarget, list[str]]:
    from tileprof.profiler import ProgramTarget

    if split.module is not None:
        return ProgramTarget("module", split.module), split.program
    name, *rest = split.program
    is_pytest = name == "pytest" and not Path(name).exists()
    return (ProgramTarget("pytest") if is_pytest else ProgramTarget("script", name)), rest


def _check_writable(path: Path) -> None:
    """Refuse before the program runs: an hour of work must not end in a lost profile."""
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OutputError(
            f"the profile cannot be written to {path}",
            hint="Choose a file in a folder that exists and is writable with `-o FILE`.",
        )


def _summary(profile: Profile, path: Path | None) -> None:
    from tileprof.viewer import ViewOptions, render_view

    err = sys.stderr
    text = render_view(
        profile,
        ViewOptions(threshold=SUMMARY_PERCENT),
        width=terminal.width(err),
        color=terminal.has_color(err),
        unicode=terminal.has_unicode(err),
    )
    print(f"\n{text}tileprof: wrote {path}; see it again with `tileprof view {path}`", file=err)
