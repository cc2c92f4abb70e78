"""The command line: the only place that prints results and errors and picks exit codes.

In: arguments.  Out: text on standard output, one message on standard error when something is wrong,
and an exit code: that of the user's program for `run`, 2 for wrong use, 1 for a failed gate.

To add a command: one file with `add(subparsers)` and one line in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from tileprof.errors import KernelError, TileprofError

from . import compile_command, diff, doctor, export, later, run, view

__all__ = ["COMMANDS", "main"]

COMMANDS = (run, view, later.REPORT, diff, export, compile_command, later.INSPECT, doctor)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        """Wrong use: one line, and where the help is."""
        self.exit(2, f"{self.prog}: {message}\nSee `{self.prog} --help`.\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `--help` of each is made from it."""
    parser = _Parser(
        prog="tileprof",
        description="Where does the time of a GPU program go, why, and what to change.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # `run` passes everything after the script on to it, which argparse cannot express.
    if arguments[:1] == ["run"] and not {"-h", "--help"} & set(arguments[1:2]):
        return _guarded(lambda: run.main(arguments[1:]))
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.version:
        from tileprof import __version__

        print(f"tileprof {__version__}")
        return 0
    if not hasattr(args, "execute"):
        parser.print_help()
        return 2
    return _guarded(lambda: args.execute(args))


def _guarded(execute: Any) -> int:
    try:
        code = int(execute())
        sys.stdout.flush()
        return code
    except TileprofError as error:
        print(f"tileprof: {error}", file=sys.stderr)
        # The author's kernel is wrong, not the use of the command.
        return 1 if isinstance(error, KernelError) else 2
    except BrokenPipeError:
        # The reader of the pipe has seen enough; Python must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
