"""A family: a kernel, where its source stands, and what it runs on.

In: nothing.  Out: `Family`, and makers of tile and Triton families that know where sources are.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .programs import Program, dotted

__all__ = ["CASE_STUDIES", "Family", "case", "extents", "tile", "triton"]

HERE = Path(__file__).parent
CASE_STUDIES = HERE.parents[2] / "case_studies"


@dataclass(frozen=True)
class Family:
    """A kernel and its problem."""

    name: str
    language: Literal["tile", "triton"]
    path: Path
    shape: Mapping[str, int]
    """Extents on a GPU."""
    small: Mapping[str, int]
    """Extents that a processor is done with at once."""
    flops: str = "0"
    """Floating-point operations of the matrix unit, an expression of extents."""
    touched: str = ""
    """Bytes that must move, an expression of extents; of all inputs and results where empty."""
    origin: Literal["case study", "example", "tutorial", "older"] = "example"

    @property
    def problem(self) -> str:
        """Name under which `problems` has inputs and results."""
        return self.name

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text()

    @cached_property
    def entry(self) -> str:
        """Function that is called: the tile kernel, or what launches a Triton kernel."""
        return self.path.stem if self.language == "tile" else "run"

    @cached_property
    def kernel(self) -> str:
        """Function with the device code."""
        if self.language == "tile":
            return self.path.stem
        tree = ast.parse(self.text)
        return next(
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
            and any(dotted(each) == "triton.jit" for each in node.decorator_list)
        )  # fmt: skip

    @cached_property
    def program(self) -> Program:
        """The source with its syntax tree."""
        return Program(self.text, self.kernel, self.entry)

    @property
    def facts(self) -> tuple[Any, ...]:
        """Settings of its runs, beside sources and extents."""
        return self.language, self.flops, self.touched, sorted(self.small.items())


def extents(**extents: int) -> dict[str, int]:
    """Return extents by name."""
    return extents


def case(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    """Return the family of a case study."""
    path = CASE_STUDIES / f"{name}.py"
    return Family(f"case-{name}", "tile", path, shape, small, origin="case study", **more)


def tile(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    """Return the family of a file below `tile_kernels`."""
    return Family(f"tile-{name}", "tile", _found("tile_kernels", name), shape, small, **more)


def triton(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    """Return the family of a file below `triton_kernels`."""
    path = _found("triton_kernels", name)
    return Family(f"triton-{name}", "triton", path, shape, small, origin="tutorial", **more)


def _found(folder: str, name: str) -> Path:
    """Return the file of a name in a folder or below it.

    Raises:
        FileNotFoundError: there is no such file, or there are several.
    """
    paths = list((HERE / folder).rglob(f"{name}.py"))
    if len(paths) != 1:
        raise FileNotFoundError(f"{len(paths)} files {name}.py are below {HERE / folder}")
    return paths[0]
