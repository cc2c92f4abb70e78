"""Repetition of tests: those that compare times, which other programs on the machine may disturb,
and those that look at each row of a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import product
from typing import Any, ParamSpec

P = ParamSpec("P")


def in_one_of_five_runs(test: Callable[P, None]) -> Callable[P, None]:
    """Repeat a test: a busy machine may keep the thread that samples from a whole recording."""

    @wraps(test)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(4):
            try:
                return test(*args, **kwargs)
            except (AssertionError, IndexError):
                pass
        return test(*args, **kwargs)

    return repeated


def for_each(**cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a test for each value of its arguments, for all combinations where there are several.

    It is one test, where `pytest.mark.parametrize` makes one of each case: a case that takes less
    than a millisecond is then ten times as fast. All cases run; those that fail are in an
    `ExceptionGroup`, each with a note that names it.
    """

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        @wraps(test)
        def every() -> None:
            failed: list[Exception] = []
            for values in product(*cases.values()):
                case = dict(zip(cases, values, strict=True))
                try:
                    test(**case)
                except Exception as error:
                    error.add_note(f"case: {case}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} cases of {test.__name__} failed", failed)

        # pytest would take the arguments for fixtures.
        every.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return every

    return decorate
