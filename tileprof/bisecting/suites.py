"""The kernels that are compared: those of a file, of functions in it, or of a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tileprof.errors import UsageError


@dataclass(frozen=True, slots=True)
class Suite:
    """Kernels that a worker loads."""

    kind: Literal["file", "script"]
    file: str
    names: tuple[str, ...] = ()
    """Kernels and functions of the file; empty for all kernels."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of `--set`."""
    arguments: tuple[str, ...] = ()
    """Arguments of the script."""

    def __str__(self) -> str:
        if self.kind == "script":
            return " ".join([self.file, *self.arguments])
        return f"{self.file}:{','.join(self.names)}" if self.names else self.file

    def below(self, roots: Sequence[str]) -> Path | None:
        """Return the path of the file below the first of these folders that it lies in."""
        path = Path(self.file).resolve()
        for root in roots:
            if root and path.is_relative_to(Path(root).resolve()):
                return path.relative_to(Path(root).resolve())
        return None

    def on(self, tree: str, below: Path | None) -> str:
        """Return the path of the file on a side: that of its tree, where each side has one."""
        return str(Path(tree) / below if tree and below else Path(self.file).resolve())


def read_suite(place: str, values: Mapping[str, Any], arguments: tuple[str, ...]) -> Suite:
    """Return the suite that `FILE`, `FILE:KERNEL,…` or `SCRIPT ARGS…` names."""
    path, _, names = place.rpartition(":")
    if path and not Path(place).is_file():
        _check(path)
        return Suite("file", path, tuple(n for n in names.split(",") if n), values)
    _check(place)
    if values or not runs_as_script(place):
        return Suite("file", place, (), values)
    return Suite("script", place, (), {}, arguments)


def runs_as_script(place: str) -> bool:
    """Return whether a file does something by itself: it has a main part, or defines no kernel."""
    path = Path(place)
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return "__main__" in text or not any(word in text for word in ("jit", "prim_func"))


def _check(path: str) -> None:
    if not Path(path).is_file():
        state = "is a folder" if Path(path).is_dir() else "does not exist"
        raise UsageError(f"{path} {state}", hint="The suite is a Python file or FILE:KERNEL.")
