"""Options of the contract that are not built yet: one sentence, exit code 2."""

from __future__ import annotations

from typing import NoReturn

from tileprof.errors import UsageError

__all__ = ["refuse"]


def refuse(what: str) -> NoReturn:
    """Say that an option is known and not there yet."""
    raise UsageError(f"{what} is not available in this version of tileprof")
