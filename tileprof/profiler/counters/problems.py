"""Why CUPTI reads no counters, in words, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tileprof.errors import MissingDependencyError
from tileprof.profiler import native
from tileprof.profiler.cupti import permissions

_T = TypeVar("_T")

NOT_READ = "counters not read"
"""Key of the provenance for the reason."""
_REFUSED = 35
"""CUPTI's code where the driver lets administrators alone read counters."""
_UNSUPPORTED = {
    40: "a virtual GPU whose host does not allow it",
    41: "a GPU in confidential computing",
    42: "a GPU for mining",
    43: "a part of a GPU (MIG)",
    45: "Windows Subsystem for Linux",
}


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
    if code == _REFUSED:
        way = permissions.counters_remedy() or "run as root"
        return (
            "this process may not read counters"
            f" ({text}, {code}); {' '.join(way.split())}; `--instrument sample` needs no"
            " permission"
        )
    if code in _UNSUPPORTED:
        return f"CUPTI reads no counters of {_UNSUPPORTED[code]} ({text}, {code})"
    return text if code < 0 else f"{text} ({code})"
