"""Functions for notebooks and scripts; the command line calls them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tileprof.errors import UsageError

from .catalogue import COURSE, find, number
from .exercise import Attempt, Exercise, Failure, Result
from .folder import Folder
from .loading import load


@dataclass(frozen=True, eq=False)
class Course:
    """All exercises, with what is solved in a folder."""

    folder: Folder

    @property
    def rows(self) -> list[tuple[int, Exercise, bool]]:
        """Number, exercise, and whether it is solved."""
        return [(n, each, each.name in self.folder.solved) for n, each in enumerate(COURSE, 1)]

    @property
    def next(self) -> Exercise | None:
        """The first exercise that is not solved; None after the last."""
        return next((each for _, each, solved in self.rows if not solved), None)

    def __repr__(self) -> str:
        from .pages import course_text

        return course_text(self)

    def _repr_html_(self) -> str:
        from .pages import course_html

        return course_html(self)


@dataclass(frozen=True, eq=False)
class Task:
    """An exercise with its file."""

    exercise: Exercise
    file: Path
    written: bool
    """Whether the file is new; one that was there is left as it is."""

    def __repr__(self) -> str:
        from .pages import task_text

        return task_text(self)

    def _repr_html_(self) -> str:
        from .pages import task_html

        return task_html(self)


@dataclass(frozen=True, eq=False)
class GivenHint:
    """One hint of an exercise."""

    exercise: Exercise
    at: int
    """Number of the hint, from 0."""

    def __repr__(self) -> str:
        count = len(self.exercise.hints)
        return f"Hint {self.at + 1} of {count}\n{self.exercise.hints[self.at].shown()}"

    def _repr_html_(self) -> str:
        from .pages import preformatted

        return preformatted(repr(self))


def course(folder: str | Path = ".") -> Course:
    """Return the list of exercises, with what is solved in a folder."""
    return Course(Folder.open(folder))


def start(name: str | int, folder: str | Path = ".") -> Task:
    """Write the file of an exercise unless it is there, and return the task.

    `name` may be a number.  UsageError for an exercise that does not exist.
    """
    exercise, held = find(name), Folder.open(folder)
    return Task(exercise, held.file(exercise), held.start(exercise))


def hint(name: str | int, folder: str | Path = ".") -> GivenHint:
    """Return the next hint of an exercise; the last one has the lines of a solution."""
    exercise = find(name)
    return GivenHint(exercise, Folder.open(folder).next_hint(exercise))


def check(
    name: str | int,
    solution: Callable[..., Any] | None = None,
    /,
    *,
    folder: str | Path = ".",
    **answers: Any,
) -> Result:
    """Run the hidden tests of an exercise on its file, or on a kernel or answers that are given.

    In a notebook: `check("add", add)` for a kernel of a cell, `check("find_race", LINES={9, 11})`
    for an exercise that asks for values, which take the places of those in its file.  What is right
    is noted in the folder.
    UsageError where there is no file.
    """
    exercise, held = find(name), Folder.open(folder)
    path = held.file(exercise)
    if solution is not None:
        attempt = Attempt({exercise.name: solution, **answers}, "this notebook")
        result = exercise.judge.judge(attempt)
    else:
        if not path.is_file():
            raise UsageError(
                f"there is no file {path}",
                hint=f"Start the exercise: tileprof learn {exercise.name}, or name its folder with "
                "--dir.",
            )
        loaded = load(path)
        if isinstance(loaded, Failure):
            return Result(exercise.name, loaded)
        result = exercise.judge.judge(replace(loaded, members={**loaded.members, **answers}))
    if result.passed:
        held.solve(exercise)
        result = replace(result, said=exercise.said)
    return result


def started(folder: Folder) -> list[Exercise]:
    """Return the exercises whose files are in a folder."""
    return [each for each in COURSE if folder.file(each).is_file()]


__all__ = ["Course", "GivenHint", "Task", "check", "course", "hint", "number", "start", "started"]
