"""Names of `tileprof.cli`, loaded when one is first used."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence

from tileprof.errors import (
    ArgumentError,
    CubinError,
    MissingDependencyError,
    OutputError,
    ProfileFileError,
    TileprofError,
    UsageError,
    suggestion,
)
from tileprof.progress import working

from . import (
    cache_command,
    completion,
    ctl,
    diff,
    doctor,
    export,
    learn,
    mcp_command,
    report,
    run,
    terminal,
    view,
)
from .bisecting import bisect_command
from .kernel import bench, check, compile_command, events, inspect_command, show, tune
from .parsing import Command
from .trying import try_command

__all__ = ["COMMANDS", "main"]

_MODULES = (
    run, ctl, view, report, try_command, diff, bench, tune, bisect_command, export, compile_command,
    inspect_command, events, check, show, learn, cache_command, doctor, mcp_command,
)  # fmt: skip
COMMANDS: dict[str, Command] = {module.COMMAND.name: module.COMMAND for module in _MODULES}
COMMANDS["completion"] = completion.command(COMMANDS)
_QUIET = {"bench", "bisect", "mcp", "try", "tune"}
"""Commands during which nothing is drawn: it would disturb times, and a server never ends."""
WRONG_USE = (
    UsageError, ArgumentError, ProfileFileError, CubinError, OutputError, MissingDependencyError,
)  # fmt: skip
"""Errors that exit with 2. All others mean that the kernel is wrong, and exit with 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return _guarded(lambda: _dispatch(arguments))


def _dispatch(arguments: list[str]) -> int:
    match arguments:
        case []:
            terminal.show(_help(), sys.stderr)
            return 2
        case ["-h" | "--help", *_]:
            terminal.show(_help())
            return 0
        case ["--version", *_]:
            from tileprof import __version__

            terminal.show(f"tileprof {__version__}\n")
            return 0
        case [name, *rest] if name in COMMANDS:
            if name == "run":
                with terminal.progress(apart=True):
                    return run.COMMAND.main(rest)
            if name in _QUIET:
                return COMMANDS[name].main(rest)
            with terminal.progress(), working(f"tileprof {name}"):
                return COMMANDS[name].main(rest)
        case [name, *_]:
            kind = "option" if name.startswith("-") else "command"
            raise UsageError(
                f"there is no {kind} `{name}`", hint=f"{_meant(name)}See `tileprof --help`."
            )
    raise AssertionError


def _meant(name: str) -> str:
    for suffix, command in ((".py", "run"), (".tprof", "view")):
        if name.endswith(suffix):
            return f"Did you mean `tileprof {command} {name}`? "
    return suggestion(name, [*COMMANDS, "--help", "--version"])


def _help() -> str:
    lines = "".join(f"  {each.name:<10} {each.help}\n" for each in COMMANDS.values())
    return (
        "usage: tileprof COMMAND …\n"
        "       tileprof COMMAND --help\n"
        "       tileprof --version\n\n"
        "Show where the time of a GPU program goes, why, and what to change.\n\n"
        f"commands:\n{lines}"
    )


def _guarded(execute: Callable[[], int]) -> int:
    try:
        return execute()
    except SystemExit as ending:
        # Only `--help` of a command ends like this.
        return int(ending.code or 0)
    except TileprofError as error:
        terminal.complain(str(error))
        return 2 if isinstance(error, WRONG_USE) else 1
    except BrokenPipeError:
        # The reader of the pipe has seen enough.
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception:
        terminal.complain(
            f"{traceback.format_exc()}This is a fault of tileprof. Please report it, with the "
            "lines above and the command."
        )
        return 1
