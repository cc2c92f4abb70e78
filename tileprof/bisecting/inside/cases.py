"""The interface that kernels of both compilers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """A mistake of the suite or of the side, in a sentence; `hint` says the way out."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Wanted:
    """Settings with which the kernels of this side are compiled."""

    target: str
    """`sm_90a`, `sm_80`, …, or `cpu`."""
    device: str
    """Device that they run and are timed on: `cuda:0`, `cpu`; empty where they only compile."""
    values: Mapping[str, Any]
    """Values of `--set`."""
    controls: Mapping[str, Any]
    """Lowering controls of this side, beside those of the author."""
    folder: str
    """Folder below which the author's own files lie."""
    seed: int = 0


@dataclass
class Case:
    """A kernel for one set of argument types and constants."""

    name: str
    engine: str
    """`tileprof` or `triton`."""
    form: Callable[[Mapping[str, Any], bool], dict[str, Any]]
    """Takes controls and whether passes are wanted; returns every form of the kernel."""
    call: Callable[[], Callable[[], Any]]
    """Returns a call that can be timed; `Refused` where none can be made."""
    resume: Callable[[str, str], dict[str, Any]] | None = None
    """Takes a step's name and the other side's text after it; returns forms from there on."""
