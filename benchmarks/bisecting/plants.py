"""A plant: a kernel, what is done to one side, and the first level that truly differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tileprof.bisecting import Level

Which: TypeAlias = Literal["compiler", "kernel", "compiler and kernel"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file that is replaced, each time that it stands there."""

    file: str
    """Below the compiler's package, or the name of the kernel's file."""
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Plant:
    """A regression with a cause that is known."""

    name: str
    engine: Literal["tileprof", "triton"]
    suite: str
    """`FILE:NAME`, below the benchmark's folder or the repository."""
    level: Level
    steps: tuple[str, ...] = ()
    """Passes or stages of which one has to be named; empty where the level says it all."""
    compiler: tuple[Edit, ...] = ()
    """Edits of the new side's compiler."""
    kernel: tuple[Edit, ...] = ()
    """Edits of the new side's kernel."""
    options: str = ""
    """Options of the new side."""
    values: dict[str, Any] = field(default_factory=dict)
    """Values of `--set`."""


@dataclass(frozen=True, slots=True)
class Null:
    """An edit that changes nothing that a GPU runs: naming a kernel as changed is a false alarm."""

    name: str
    engine: Literal["tileprof", "triton"]
    suite: str
    compiler: tuple[Edit, ...] = ()
    kernel: tuple[Edit, ...] = ()
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict)
