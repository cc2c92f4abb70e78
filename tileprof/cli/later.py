"""Commands and options that are part of the contract and not built yet: one sentence, exit code 2."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from tileprof.errors import UsageError

__all__ = ["INSPECT", "REPORT", "refuse"]


def refuse(what: str) -> None:
    """Say that an option is known and not there yet."""
    raise UsageError(f"{what} is not available in this version of tileprof")


@dataclass(frozen=True, slots=True)
class _LaterCommand:
    name: str
    help: str

    def add(self, commands: Any) -> None:
        """Register the command's name, so that it answers."""
        parser = commands.add_parser(self.name, help=f"{self.help} (not available yet)")
        parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.set_defaults(execute=lambda args: refuse(f"`tileprof {self.name}`"))


REPORT = _LaterCommand("report", "what to change, and what it would bring")
INSPECT = _LaterCommand("inspect", "what a compiled kernel contains")
