"""Findings of `tileprof doctor`, one line each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: a thing, whether it is there, and what follows."""

    name: str
    found: str
    """Version or path; '' where it is missing."""
    purpose: str
    remedy: str = ""
    """The command that would get it; several lines where it takes more."""
