"""Why CUPTI reads no counters, in words, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from tileprof.errors import MissingDependencyError
from tileprof.profiler import native
from tileprof.profiler.cupti.cupti_library import other_copy
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


def problem(recorder: ModuleType, code: int, text: str) -> str:
    """Return a sentence on a failure of CUPTI's, or of the native recorder (codes below 0)."""
    if code in (recorder.GPU_CODES["cannot_count"], recorder.GPU_CODES["no_pm_sampling"]):
        return f"{text}: {other_copy()}"
    if refused := refusal(code, f"{text}, {code}", "CUPTI reads no counters"):
        return f"{refused}; {INSTEAD}"
    return text if code < 0 else f"{text} ({code})"
