"""Exercises, and a judge's verdict on an attempt."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tileprof.errors import Location

_WIDTH = 96
"""Columns of a hint's text."""
Array: TypeAlias = Any
"""A NumPy array; specifications are read by learners, and NumPy's types would hide the formula."""
Track = Literal["basics", "reductions", "products", "attention", "faults", "speed", "reading"]
TRACKS: tuple[Track, ...] = (
    "basics", "reductions", "products", "attention", "faults", "speed", "reading",
)  # fmt: skip
"""Tracks in the order in which the list shows them."""
Stage = Literal["file", "kernel", "launch", "values", "condition", "answer"]
"""Kind of failure: the file cannot be run; the kernel is refused or goes wrong; no kernel ran;
values differ; a condition does not hold; an answer is wrong."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first thing that is wrong with an attempt."""

    stage: Stage
    message: str
    location: Location | None = None
    hint: str = ""
    """Findings of tileprof about it, as sentences."""
    case: str = ""
    """Arguments of the hidden case, in words."""
    device: str = ""

    def text(self) -> str:
        """Return the failure as lines."""
        place = f"{self.location}: " if self.location else ""
        lines = [f"{place}{self.message}"]
        if self.location and (excerpt := self.location.excerpt()):
            lines.append(excerpt)
        if self.hint:
            lines.append(self.hint)
        if self.case:
            lines.append(f"Hidden test: {self.case}, on the {self.device}.")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a check."""

    exercise: str
    failure: Failure | None = None
    cases: int = 0
    """Hidden tests that passed, or answers that are right."""
    devices: tuple[str, ...] = ()
    """Devices on which they ran; none for answers."""
    conditions: tuple[str, ...] = ()
    """Conditions that hold."""
    said: str = ""
    """Text for a learner who has solved the exercise."""

    @property
    def passed(self) -> bool:
        """Whether everything is right."""
        return self.failure is None

    def text(self) -> str:
        """Return the result as lines."""
        if self.failure is not None:
            return f"{self.exercise}: not yet\n{self.failure.text()}"
        what = "hidden test" if self.devices else "answer"
        tests = f"{self.cases} {what}{'s' * (self.cases != 1)}"
        where = f" on {' and '.join(self.devices)}" if self.devices else ""
        lines = [f"{self.exercise}: solved ({tests}{where})"]
        lines += [f"  {each}: yes" for each in self.conditions]
        return "\n".join([*lines, *([self.said] if self.said else [])])

    __repr__ = text

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        from .pages import result_html

        return result_html(self)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt of a learner: the members of a file, or a function and answers."""

    members: Mapping[str, Any]
    place: str
    """Name of the file, or `this notebook`."""


class Judge(Protocol):
    """Decides whether an attempt is right."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions beyond right values, as sentences."""
        ...

    def judge(self, attempt: Attempt) -> Result:
        """Return what is right or the first thing that is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Hint:
    """One step of an exercise's ladder of hints."""

    text: str
    patch: tuple[tuple[str, str], ...] = ()
    """Lines of the starter and the lines that take their places; the last hint has them."""

    def shown(self) -> str:
        """Return the hint with the lines that it replaces."""
        parts = [textwrap.fill(self.text, _WIDTH)]
        for old, new in self.patch:
            parts += [f"- {line}" for line in old.splitlines()]
            parts += [f"+ {line}" for line in new.splitlines()]
        return "\n".join(parts)


@dataclass(frozen=True)
class Exercise:
    """One puzzle."""

    name: str
    """Name of the learner's file, and of the kernel in it."""
    title: str
    track: Track
    task: str
    """Explanation, in paragraphs."""
    uses: tuple[str, ...]
    """Section to read, as `page.md#section`, within `docs`."""
    starter: str
    """Content of the learner's file below its docstring: it runs, and is wrong."""
    judge: Judge
    hints: tuple[Hint, ...]
    spec: Callable[..., Any] | None = None
    """The specification in NumPy."""
    said: str = ""
    """Text that the learner reads after solving it."""
    data: Mapping[str, str] | None = None
    """Files that are put beside the learner's: their names in `tileprof/learn/data` by name."""

    def spec_text(self) -> str:
        """Return the source of the specification; '' where it has none."""
        return "" if self.spec is None else inspect.getsource(self.spec).rstrip()

    def file_text(self) -> str:
        """Return what the learner's file holds at first."""
        head = (
            f'"""{self.title}.\n\n'
            f"tileprof learn {self.name}           shows the task\n"
            f"tileprof learn {self.name} --check   runs the hidden tests\n"
            f'tileprof learn {self.name} --hint    gives the next hint\n"""\n\n'
        )
        return head + self.starter.lstrip("\n")


def floats(random: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Array:
    """Return normally distributed numbers of an element type."""
    return random.standard_normal(shape, np.float32).astype(dtype)


Cases = Callable[[np.random.Generator], Iterator[tuple[Any, ...]]]
"""Yields the arguments of the hidden tests; the first of them also runs on the cpu."""
