"""`tileprof ctl`: begin and stop the recording of a program that runs, or have it written."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tileprof.errors import UsageError

from . import terminal
from .parsing import Command, Parser

if TYPE_CHECKING:
    from tileprof.profiler.control.messages import State

USAGE = (
    "[--json]\n"
    "       tileprof ctl PID status|stop [--json]\n"
    "       tileprof ctl PID watch\n"
    "       tileprof ctl PID start [--clear] [--json]\n"
    "       tileprof ctl PID snapshot FILE [--json]\n"
    "       tileprof ctl PID record SECONDS FILE [--json]"
)
SCHEMA = 1
_ARGUMENTS = {"status": (), "watch": (), "start": (), "stop": (), "snapshot": ("FILE",),
              "record": ("SECONDS", "FILE")}  # fmt: skip
_MARGIN_S = 0.25
"""Seconds that the program itself waits longer for the end of `record`, if nobody ends it."""


def main(arguments: Sequence[str]) -> int:
    """Ask a program, and print the state of its recording."""
    args = _parsed(arguments)
    if args.pid is None:
        return _list(args.json)
    if args.command == "watch":
        return _watch(args)
    state = _asked(args)
    if args.json:
        terminal.show(json.dumps({"schema": SCHEMA, **asdict(state)}, indent=1) + "\n")
    else:
        terminal.show(_sentence(state))
    if args.command in ("snapshot", "record"):
        shown = args.values[-1]
        terminal.complain(f"wrote {shown}; see it with `tileprof view {shown}`")
    return 0


def _parser() -> Parser:
    parser = Parser(
        "ctl",
        USAGE,
        "Control the recording of a running program that was started with `tileprof run --control`"
        " or `--paused`. `snapshot` writes everything recorded so far. `record` discards that,"
        " records for some seconds, and writes the result. `watch` shows the tree live (needs the"
        " extra tui). Without a PID, list the programs that can be controlled.",
    )
    parser.add_argument("pid", metavar="PID", nargs="?", help="process id of the program")
    parser.add_argument("command", metavar="COMMAND", nargs="?", help=", ".join(_ARGUMENTS))
    parser.add_argument("values", metavar="VALUE", nargs="*", help="SECONDS and FILE, as above")
    parser.add_argument("--clear", action="store_true", help="discard what was recorded before")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    args: argparse.Namespace = _parser().parse_args(arguments)
    if args.pid is not None:
        _check(args)
    return args


def _check(args: argparse.Namespace) -> None:
    hint = "usage: tileprof ctl " + USAGE.replace("       tileprof ctl ", "   or: tileprof ctl ")
    if not (args.pid.isascii() and args.pid.isdecimal()):
        raise UsageError(f"`{args.pid}` is not a process id", hint=hint)
    if args.command not in _ARGUMENTS:
        raise UsageError(
            f"`{args.command}` is not a command of ctl" if args.command else "no command given",
            hint=f"Give one of {', '.join(_ARGUMENTS)}.",
        )
    wanted = _ARGUMENTS[args.command]
    if len(args.values) != len(wanted):
        needs = " and ".join(wanted) or "nothing more"
        raise UsageError(f"`ctl PID {args.command}` takes {needs}", hint=hint)
    if args.clear and args.command != "start":
        raise UsageError("`--clear` belongs to `start`", hint=hint)
    if args.command == "record":
        args.seconds = _seconds(args.values[0])


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"`{text}` is no time in seconds", hint="Give a number above 0, as 10.")
    return seconds


def _watch(args: argparse.Namespace) -> int:
    if args.json:
        raise UsageError("`watch` has no `--json`", hint="Use `status` or `snapshot FILE`.")
    from tileprof.cli.interactive import check_terminal

    check_terminal("ctl PID watch")
    from tileprof.cli.live import watch

    watch(int(args.pid))
    return 0


def _asked(args: argparse.Namespace) -> State:
    from tileprof.profiler.control.client import ask
    from tileprof.profiler.control.messages import Request

    pid, command = int(args.pid), args.command
    if command == "snapshot":
        return ask(pid, Request("snapshot", file=os.path.abspath(args.values[0])))
    if command == "record":
        return _recorded(pid, args.seconds, os.path.abspath(args.values[1]))
    return ask(pid, Request(command, clear=args.clear))


def _recorded(pid: int, seconds: float, file: str) -> State:
    """Record for a while. The program ends that by itself where this process does not."""
    from tileprof.profiler.control.client import ask
    from tileprof.profiler.control.messages import Request

    ask(pid, Request("start", clear=True, seconds=seconds + _MARGIN_S))
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        terminal.complain("stopped early")
    ask(pid, Request("stop"))
    return ask(pid, Request("snapshot", file=file))


def _list(as_json: bool) -> int:
    from tileprof.profiler.control.client import programs

    found = programs()
    if as_json:
        held = {"schema": SCHEMA, "programs": [asdict(each) for each in found]}
        terminal.show(json.dumps(held, indent=1) + "\n")
        return 0
    if not found:
        terminal.show(
            "No program listens. Start one with `tileprof run --control SCRIPT` or `--paused`.\n"
        )
    for each in found:
        terminal.show(_sentence(each))
    return 0


def _sentence(state: State) -> str:
    does = "records" if state.recording else "is paused"
    child = " (child process)" if state.child else ""
    return f"{state.pid} {does}, {state.recorded_s:.1f} s recorded: {state.program}{child}\n"


COMMAND = Command("ctl", "start, stop or save the recording of a running program", main, _parser)
