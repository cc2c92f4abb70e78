"""Names of `tileprof.cli`, loaded when one is first used."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module

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

from . import completion, terminal
from .parsing import Command

__all__ = ["COMMANDS", "main"]

_MODULES = {
    "run": "run", "ctl": "ctl", "view": "view", "report": "report", "try": "trying.try_command",
    "diff": "diff", "bench": "kernel.bench", "tune": "kernel.tune",
    "bisect": "bisecting.bisect_command", "export": "export", "compile": "kernel.compile_command",
    "inspect": "kernel.inspect_command", "events": "kernel.events", "check": "kernel.check",
    "show": "kernel.show", "learn": "learn", "cache": "cache_command", "doctor": "doctor",
    "mcp": "mcp_command",
}  # fmt: skip
"""Modules of commands in the order of `tileprof --help`. A run imports only that of its command."""


class _Commands(Mapping[str, Command]):
    """Commands by name, imported one by one when they are asked for."""

    def __iter__(self) -> Iterator[str]:
        yield from _MODULES
        yield "completion"

    def __len__(self) -> int:
        return len(_MODULES) + 1

    def __contains__(self, name: object) -> bool:
        return name in _MODULES or name == "completion"

    def __getitem__(self, name: str) -> Command:
        if name == "completion":
            return completion.command(self)
        found: Command = import_module(f"tileprof.cli.{_MODULES[name]}").COMMAND
        return found


COMMANDS: Mapping[str, Command] = _Commands()
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
                    return COMMANDS[name].main(rest)
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
