"""The judge of exercises whose answers are values in the learner's file."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileprof.errors import InternalError, TileprofError

from .exercise import Attempt, Failure, Result


@dataclass(frozen=True)
class Question:
    """One value that the learner gives."""

    name: str
    """Name of the value in the file."""
    about: str
    """Description of it, as the end of a sentence."""
    wrong: Callable[[Any, Attempt], str]
    """Returns why an answer is wrong, without the right one; '' where it is right.  It raises
    TypeError or ValueError for an answer that is no answer to the question."""


@dataclass(frozen=True)
class AnswerJudge:
    """Compares values with what tileprof finds."""

    name: str
    questions: tuple[Question, ...]

    @property
    def conditions(self) -> tuple[str, ...]:
        """The questions."""
        return tuple(f"{each.name}: {each.about}" for each in self.questions)

    def judge(self, attempt: Attempt) -> Result:
        """Go through the questions up to the first wrong answer."""
        for each in self.questions:
            answer = attempt.members.get(each.name)
            if answer is None:
                message = f"`{each.name}` is not answered: {each.about}"
                return Result(self.name, Failure("answer", message))
            try:
                wrong = each.wrong(answer, attempt)
            except (TypeError, ValueError):
                wrong = f"{answer!r:.60} is no answer to the question"
            except KeyError as missing:
                message = f"{attempt.place} has no kernel {missing}"
                hint = "Put the kernel back as it was: move the file away and start again."
                return Result(self.name, Failure("file", message, None, hint))
            except InternalError:
                raise
            except TileprofError as error:
                refused = Failure("kernel", error.message, error.location, error.hint)
                return Result(self.name, refused)
            if wrong:
                message = f"`{each.name}` is not right: {each.about}"
                return Result(self.name, Failure("answer", message, None, wrong))
        count = len(self.questions)
        return Result(self.name, None, count, (), tuple(each.name for each in self.questions))


def near(right: Callable[[], float], hint: str) -> Callable[[Any, Attempt], str]:
    """Return the test of a number, within 2 %."""

    def wrong(answer: Any, attempt: Attempt) -> str:
        return "" if math.isclose(float(answer), right(), rel_tol=0.02) else hint

    return wrong


def same(right: Callable[[], object], hint: str) -> Callable[[Any, Attempt], str]:
    """Return the test of a value that must be equal."""

    def wrong(answer: Any, attempt: Attempt) -> str:
        return "" if answer == right() else hint

    return wrong
