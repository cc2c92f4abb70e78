"""A running `pdb` steps over tileprof's own functions, and so straight into macros."""

from __future__ import annotations

import bdb
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SKIPPED = frozenset(
    {"tileprof", "tileprof.*", "abc", "ast", "collections", "collections.*", "contextlib", "copy",
     "dataclasses", "enum", "functools", "importlib.*", "inspect", "linecache", "ml_dtypes",
     "numpy", "numpy.*", "operator", "re", "re.*", "typing", "weakref"}
)  # fmt: skip
"""Modules that tileprof runs for a line of a kernel; the debugger does not step into them."""


class Inline:
    """Does `step_over_ours` without a Python call, right after a `breakpoint()`: the debugger has
    begun to trace and would step into one."""

    TEXT = (
        "if isinstance(getattr(__tileprof.inline.tracer(), '__self__', None),"
        " __tileprof.inline.debugger):"
        " setattr(__tileprof.inline.tracer().__self__, 'skip', __tileprof.inline.skipped)"
    )
    tracer = sys.gettrace
    debugger = bdb.Bdb
    skipped = _SKIPPED


def _debugger() -> Any:
    owner = getattr(sys.gettrace(), "__self__", None)
    return owner if isinstance(owner, bdb.Bdb) else None


def step_over_ours() -> None:
    """Tell the debugger that traces this thread, if one does: `breakpoint()` may start it."""
    found = _debugger() if sys.gettrace() is not None else None
    if found is not None and not set(found.skip or ()) >= _SKIPPED:
        found.skip = {*(found.skip or ()), *_SKIPPED}


@contextmanager
def stepping_over_ours() -> Iterator[None]:
    """Make the debugger skip tileprof's modules until the end of the block."""
    before = _debugger()
    skip = None if before is None else before.skip
    step_over_ours()
    try:
        yield
    finally:
        found = _debugger()
        if found is not None and found.skip is not None:
            found.skip = skip if found is before else ({*found.skip} - _SKIPPED or None)


@contextmanager
def untraced() -> Iterator[None]:
    """Hide work from the debugger that calls all kinds of modules."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
