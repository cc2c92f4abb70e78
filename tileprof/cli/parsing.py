"""Reading a command's arguments: wrong use is a `UsageError` that says what was meant.

In: the declarations of a command's options.  Out: parsed arguments, or an error with its way out.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tileprof.errors import UsageError

__all__ = ["Command", "Parser", "number", "one_of", "suggestion"]


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `tileprof`."""

    name: str
    help: str
    """One line for `tileprof --help`."""
    main: Callable[[Sequence[str]], int]
    """Takes the arguments after the command's name, returns the exit code."""


class Parser(argparse.ArgumentParser):
    """A parser of one command; `usage` says its arguments as the documentation does."""

    def __init__(self, command: str, usage: str, description: str) -> None:
        # Without abbreviations: `run` must know which options take a value before it parses.
        super().__init__(
            f"tileprof {command}",
            f"tileprof {command} {usage}".rstrip(),
            description,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Wrong use: one sentence, and where the help is."""
        raise UsageError(message, hint=self._see())

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; `UsageError` names the first one that nobody takes."""
        found, rest = self.parse_known_args(args, namespace)
        if not rest:
            return found
        if not rest[0].startswith("-"):
            raise UsageError(f"`{rest[0]}` is one argument too many", hint=self._see())
        name = rest[0].partition("=")[0]
        meant = suggestion(name, self._option_string_actions)
        raise UsageError(f"there is no option `{name}`", hint=meant + self._see())

    def _see(self) -> str:
        return f"See `{self.prog} --help`."


def suggestion(name: str, known: Iterable[str]) -> str:
    """`Did you mean …? ` for a name that is nearly one of those that exist, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean `{near[0]}`? " if near else ""


def one_of(*names: str) -> Callable[[str], str]:
    """The type of an option that takes one of these words."""

    def check(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"`{text}` is none of {', '.join(names)}")
        return text

    return check


def number(kind: type[int] | type[float]) -> Callable[[str], Any]:
    """The type of an option that takes a number."""

    def convert(text: str) -> int | float:
        try:
            return kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"`{text}` is not a {what}") from None

    return convert
