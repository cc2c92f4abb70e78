"""Why CUPTI reads no counters, in words, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tileprof.errors import MissingDependencyError
from tileprof.profiler import native
from tileprof.profiler.cupti.refusals import INSTEAD, refusal

_T = TypeVar("_T")

NOT_READ = "counters not read"
"""Key of the provenance for the reason."""


def or_why_not(make: Callable[[], _T], fail: Callable[[str], _T]) -> _T:
    """Return what is made, or where something is missing what `fail` makes of the reason."""
    if why := native.why_not():
        return fail(f"there is no native recorder: {why}")
    try:
        return make()
    except MissingDependencyError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return fail(f"{error.message}{hint}")


def problem(code: int, text: str) -> str:
    """One sentence on a failure of CUPTI's; codes below 0 are the recorder's own."""
    if refused := refusal(code, f"{text}, {code}", "CUPTI reads no counters"):
        return f"{refused}; {INSTEAD}"
    return text if code < 0 else f"{text} ({code})"
