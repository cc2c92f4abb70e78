"""Parser of a command's arguments: wrong use is a `UsageError` with a suggestion.

In: the declarations of a command's options.  Out: parsed arguments, or an error with its way out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tileprof.errors import UsageError, suggestion

from . import terminal

_MISSING = "the following arguments are required"
"""Begin of argparse's message about missing arguments."""


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `tileprof`."""

    name: str
    help: str
    """One line for `tileprof --help`."""
    main: Callable[[Sequence[str]], int]
    """Takes the arguments after the command's name, returns the exit code."""
    parser: Callable[[], Parser]


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
        self._given: list[str] = []

    def error(self, message: str) -> NoReturn:
        """Wrong use: one sentence, and where the help is."""
        # argparse looks for what is missing first, though a misspelt option is what is wrong.
        unknown = next(filter(self._is_unknown, self._given), None)
        if unknown is not None and message.startswith(_MISSING):
            self._refuse(unknown)
        # Of an option without a value, argparse says "argument --json: ignored explicit argument".
        option, given, _ = message.partition(": ignored explicit argument ")
        if given:
            message = f"`{option.removeprefix('argument ').split('/')[-1]}` takes no value"
        raise UsageError(message, hint=self._see())

    def _print_message(self, message: str, file: Any = None) -> None:
        # What `--help` prints; argparse itself would drop what cannot be written.
        terminal.show(message, file)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; `UsageError` names the first one that nobody takes."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, rest = self.parse_known_args(args, namespace)
        if not rest:
            return found
        if not rest[0].startswith("-"):
            raise UsageError(f"`{rest[0]}` is one argument too many", hint=self._see())
        self._refuse(rest[0])

    def _is_unknown(self, argument: str) -> bool:
        """Return whether an argument is an option that does not exist; `-m1` is an option with its
        value."""
        name = argument.partition("=")[0]
        known = name in self._option_string_actions
        attached = not name.startswith("--") and name[:2] in self._option_string_actions
        is_option = len(name) > 1 and name.startswith("-") and not name[1].isdigit()
        return is_option and not (known or attached)

    def _refuse(self, argument: str) -> NoReturn:
        name = argument.partition("=")[0]
        meant = suggestion(name, self._option_string_actions)
        raise UsageError(f"there is no option `{name}`", hint=meant + self._see())

    def _see(self) -> str:
        return f"See `{self.prog} --help`."


@dataclass(frozen=True, slots=True)
class Split:
    """A command line of a command that runs a program."""

    options: list[str]
    module: str | None
    program: list[str]
    """The words from the program on; without its name for a module."""


def split_program(argv: Sequence[str], parser: Parser) -> Split:
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
                raise UsageError("`-m` needs the name of a module", hint=f"usage: {parser.usage}")
            return Split(list(argv[:at]), argv[at + 1], list(argv[at + 2 :]))
        if token == "--":
            return Split(list(argv[:at]), None, list(argv[at + 1 :]))
        if not token.startswith("-") or token == "-":
            return Split(list(argv[:at]), None, list(argv[at:]))
        at += 2 if token in takes_value else 1
    return Split(list(argv), None, [])


@dataclass(frozen=True, slots=True)
class OneOf:
    """Type of an option that takes one of some words."""

    names: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the word; argparse makes a message of the error."""
        if text not in self.names:
            meant = suggestion(text, self.names).rstrip()
            refused = f"invalid choice: '{text}' (choose {_alternatives(self.names)})"
            raise argparse.ArgumentTypeError(f"{refused}. {meant}" if meant else refused)
        return text


def one_of(*names: str) -> OneOf:
    """Return the type of an option that takes one of these words."""
    return OneOf(names)


frames = one_of("user", "library", "all")
"""Type of the option that says which frames of Python a tree has."""


def _alternatives(names: Sequence[str]) -> str:
    """Return `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def number(kind: type[int] | type[float]) -> Callable[[str], Any]:
    """Return the type of an option that takes a number."""

    def convert(text: str) -> int | float:
        try:
            return kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"`{text}` is not a {what}") from None

    return convert
