"""Commands and options of the contract that are not built yet: one sentence, exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tileprof.errors import UsageError

from .parsing import Command

__all__ = ["REPORT", "refuse"]


def refuse(what: str) -> NoReturn:
    """Say that an option is known and not there yet."""
    raise UsageError(f"{what} is not available in this version of tileprof")


def _later(name: str, help: str) -> Command:
    def main(arguments: Sequence[str]) -> int:
        refuse(f"`tileprof {name}`")

    return Command(name, f"{help} (not available yet)", main)


REPORT = _later("report", "what to change, and what it would bring")
