"""`tileprof completion`: scripts by which shells complete commands, options and their words.

In: the parsers of all commands.  Out: the text of a script, without a run of tileprof at each key.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import terminal
from .parsing import Command, OneOf, Parser, one_of

_INSTALL = {
    "bash": 'eval "$(tileprof completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(tileprof completion zsh)"       # in ~/.zshrc, after compinit',
    "fish": "tileprof completion fish | source       # in ~/.config/fish/config.fish",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command."""

    flags: tuple[str, ...]
    help: str
    words: tuple[str, ...]
    """Values that it takes; empty where it takes none, or any."""
    takes_value: bool


def _parser() -> Parser:
    usage = "bash|zsh|fish\n\n" + "\n".join(f"  {line}" for line in _INSTALL.values())
    parser = Parser(
        "completion", usage, "Print a shell script that completes tileprof's commands and options."
    )
    parser.add_argument(
        "shell", metavar="bash|zsh|fish", type=one_of(*_INSTALL), help="the shell to print for"
    )
    return parser


def command(commands: Mapping[str, Command]) -> Command:
    """Return the command that prints scripts for some commands, of which it is one itself."""

    def main(arguments: Sequence[str]) -> int:
        shell = _parser().parse_args(arguments).shell
        terminal.show(_fish(commands) if shell == "fish" else _bash(commands, shell == "zsh"))
        return 0

    about = "print a script that completes commands in a shell"
    return Command("completion", about, main, _parser)


def options(command: Command) -> list[Option]:
    """Return the options of a command in the order of its help."""
    return [
        Option(
            tuple(action.option_strings),
            (action.help or "").split(";")[0].split(" (")[0].replace("%%", "%"),
            action.type.names if isinstance(action.type, OneOf) else (),
            action.nargs != 0,
        )
        for action in command.parser()._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _words(command: Command) -> tuple[str, ...]:
    """Return the words that may stand as the first argument of a command."""
    positional = [a for a in command.parser()._actions if not a.option_strings]
    return next((a.type.names for a in positional if isinstance(a.type, OneOf)), ())


def _bash(commands: Mapping[str, Command], is_zsh: bool) -> str:
    """Return a function of bash, which zsh takes too. Files come where it has no word."""
    values, flags = [], []
    for name, command in commands.items():
        found = options(command)
        for each in found:
            if each.words:
                pattern = "|".join(f'"{name} {flag}"' for flag in each.flags)
                values.append(f'    {pattern}) words="{" ".join(each.words)}" ;;')
        listed = " ".join(flag for each in found for flag in each.flags)
        flags.append(f'    {name}) options="{listed}" words="{" ".join(_words(command))}" ;;')
    start = "autoload -U +X bashcompinit && bashcompinit\n" if is_zsh else ""
    return (
        f"{start}_tileprof() {{\n"
        "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
        "  local command=${COMP_WORDS[1]} options= words=\n"
        "  COMPREPLY=()\n"
        '  if [ "$COMP_CWORD" -eq 1 ]; then\n'
        f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))\n'
        "    return\n"
        "  fi\n"
        '  case "$command $before" in\n' + "\n".join(values) + "\n  esac\n"
        '  if [ -n "$words" ]; then\n'
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))\n'
        "    return\n"
        "  fi\n"
        '  case "$command" in\n' + "\n".join(flags) + "\n  esac\n"
        '  case "$current" in\n'
        '    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;\n'
        '    *) [ "$COMP_CWORD" -ne 2 ] || COMPREPLY=($(compgen -W "$words" -- "$current")) ;;\n'
        "  esac\n"
        "}\n"
        "complete -o default -F _tileprof tileprof\n"
    )


def _fish(commands: Mapping[str, Command]) -> str:
    return "".join(f"{line}\n" for line in _fish_lines(commands))


def _fish_lines(commands: Mapping[str, Command]) -> Iterator[str]:
    for name, command in commands.items():
        help_text = shlex.quote(command.help)
        yield f"complete -c tileprof -n __fish_use_subcommand -f -a {name} -d {help_text}"
    for name, command in commands.items():
        start = f"complete -c tileprof -n '__fish_seen_subcommand_from {name}'"
        if words := _words(command):
            yield f"{start} -f -a {shlex.quote(' '.join(words))}"
        for each in options(command):
            named = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in each.flags
            )
            given = f" -x -a {shlex.quote(' '.join(each.words))}" if each.words else ""
            value = given or (" -r" if each.takes_value else "")
            yield f"{start} {named}{value} -d {shlex.quote(each.help)}"
