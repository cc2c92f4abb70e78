"""The compiled recorder, where it is installed."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tileprof.once import once


def native_recorder() -> ModuleType | None:
    """Return the module `_recorder`, None where it is not installed (`why_not` tells)."""
    return _found()[0]


def why_not() -> str:
    """Return why there is no native recorder, '' where there is one."""
    return _found()[1]


@once
def _found() -> tuple[ModuleType | None, str]:
    try:
        from tileprof.native import _recorder
    except ImportError as error:
        built = importlib.util.find_spec("tileprof.native._recorder") is not None
        why = f"it cannot be loaded: {error}" if built else "it was not built at installation"
        return None, why
    return _recorder, ""
