"""Form of the example cases: an example of TileLang, its runs, and how runs are written short.

Code of a run may use, beside the example's own names, `torch`, `T`, `tilelang`, `supply` (random
arguments for a compiled kernel), `call` (run a kernel on such arguments, and compare it `against` a
reference), `l2norm`, and what `examples_references.py` has.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Verdict(enum.StrEnum):
    """Result of comparing the results of tileprof or of TileLang with the example's reference."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """There is none, or the example ended before it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One way to run an example."""

    code: str = ""
    """Statements, executed in the example's module; empty where importing it runs the kernel."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """New values of sizes that the example sets as literals, outside of its kernels."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in self.constants.items())
        return "; ".join(x for x in (sizes, self.code.strip().replace("\n", "; ")) if x)


@dataclass(frozen=True, slots=True)
class Example:
    """An example, or a part of it, at several shapes."""

    path: str
    """File below the folder of examples."""
    runs: tuple[Run, ...]
    label: str = ""
    asserts: bool = False
    """Whether it compares with a reference by an `assert` of its own."""
    shown: str = "%"
    """Shapes for the table, `%` the code."""

    @property
    def name(self) -> str:
        """Unique name."""
        return f"{self.path} ({self.label})" if self.label else self.path


def codes(template: str, *shapes: object) -> tuple[Run, ...]:
    """Return a run of the code for each shape, whose numbers replace `{}`."""
    return tuple(
        Run(template.format(*(shape if isinstance(shape, tuple) else (shape,)))) for shape in shapes
    )


def masks(path: str, template: str, *shapes: object) -> tuple[Example, Example]:
    """Return an example without and with the causal mask, whose flag stands at `%s`."""
    full, causal = (codes(template % flag, *shapes) for flag in (False, True))
    return Example(path, full, "full"), Example(path, causal, "causal")


def sizes(code: str, names: str, *shapes: tuple[Any, ...]) -> tuple[Run, ...]:
    """Return a run of the code for each shape, which gives new values to `names`."""
    return tuple(Run(code, dict(zip(names.split(), shape))) for shape in shapes)
