"""The thread pool of the process: a library of its own, built once and shared by every kernel."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from tileprof.compiler.build import Compiler, find_compiler, load
from tileprof.errors import InternalError, MissingDependencyError, UsageError
from tileprof.instrument.records import c_struct
from tileprof.once import once

from .abi import Run

_ENVIRONMENT = "TILEPROF_NUM_THREADS"
_chosen: int | None = None


def threads() -> int:
    """Return the number of threads that a launch may use: `set_threads`, else
    `TILEPROF_NUM_THREADS`, else the processors available to this process."""
    return _chosen if _chosen is not None else _default()


def set_threads(count: int | None) -> None:
    """Use so many threads from the next launch on; None goes back to the default."""
    global _chosen
    if count is not None and count < 1:
        raise UsageError(f"{count} threads cannot run a kernel", hint="Give 1 or more.")
    _chosen = count


@once
def _default() -> int:
    text = os.environ.get(_ENVIRONMENT, "")
    if text:
        if not text.isdigit() or int(text) == 0:
            raise UsageError(f"{_ENVIRONMENT} is `{text}`", hint="Give it a number of threads.")
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compiler() -> Compiler:
    """Return the system compiler; MissingDependencyError where there is none."""
    found = find_compiler()
    if found is None:
        raise MissingDependencyError(
            "kernels cannot be compiled for `cpu`: no C++ compiler was found",
            hint="Install g++ or clang++, set CXX, or set TILEPROF_DEVICE=interpreter.",
        )
    return found


@once
def load_pool() -> Any:
    """Return the library, started: `tp_pool_run(entry, words, run)` and `tp_pool_free(memory)`."""
    text = f'{c_struct()}#include "pool.h"\n'
    _, library = load(text, ("pool.h",), compiler(), name="pool", libraries=("-lpthread",))
    library.tp_pool_start.restype = ctypes.c_uint64
    library.tp_pool_run.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    library.tp_pool_free.argtypes = (ctypes.c_void_p,)
    library.tp_pool_free.restype = None
    size = library.tp_pool_start()
    if size != ctypes.sizeof(Run):
        raise InternalError(f"the thread pool has runs of {size} bytes, not {ctypes.sizeof(Run)}")
    return library
