"""Device memory that PyTorch's allocator hands out, told to the native recorder by itself.

In: the native recorder, and PyTorch once the program has imported it and uses CUDA.  Out: while
attached, the recorder knows each allocation with its place, and each release. The allocator is
watched by a small library in C++ (native/observer/memory.cpp), compiled as the observer of
operations is, but apart from it: it needs headers of CUDA, which may be missing.
"""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

from tileprof.errors import TileprofError
from tileprof.profiler import native
from tileprof.profiler.frameworks.observer_library import (
    Tell,
    load_memory,
    named_apart,
    to_stderr,
)
from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.locks import new_lock

_lock = new_lock()
_wanted = False
_watch: Watch | None = None
_library: Any = None
"""Loaded once in a process."""
_reason = ""
"""Why the last attempt failed."""


def attach(tell: Tell = to_stderr) -> None:
    """Watch PyTorch's allocator from now on, or from when the program begins to use CUDA.

    `tell` is given a line when compiling takes long.
    """
    global _watch, _wanted
    recorder = native.native_recorder()
    with _lock:
        if recorder is None or _wanted:
            return
        _wanted = True
    # Without the lock: PyTorch may be there already, and is asked at once.
    _watch = when_imported("torch", lambda torch: _when_imported(recorder, torch, tell))


def detach() -> None:
    """Watch it no more. What is alive is not known any more to a later recording."""
    global _wanted, _watch
    with _lock:
        _wanted = False
        if _watch is not None:
            _watch.forget()
            _watch = None
        if _library is not None:
            _library.tileprof_memory_stop()


def why_not() -> str:
    """Return why PyTorch's memory is not recorded; '' where it is or would be."""
    return _reason


def _when_imported(recorder: ModuleType, torch: ModuleType, tell: Tell) -> None:
    global _library, _reason
    if torch.version.cuda is None:
        return
    try:
        if _library is None:
            with named_apart(recorder, "watcher of PyTorch's allocator (tileprof)"):
                _library = load_memory(torch, tell)
        _reason = ""
        # The allocator takes a tracker once CUDA is in use, which this must not begin: a program
        # may want to fork before that. PyTorch calls what waits here right after its beginning.
        torch.cuda._lazy_call(lambda: _start(recorder))
    except (TileprofError, OSError, AttributeError) as error:
        _reason = error.message if isinstance(error, TileprofError) else str(error)


def _start(recorder: ModuleType) -> None:
    global _reason
    with _lock:
        if not _wanted or "torch" not in sys.modules:
            return
        recorder.memory_forget()
        problem = _library.tileprof_memory_start(ctypes.c_void_p(recorder.memory_table()))
        _reason = problem.decode(errors="replace").splitlines()[0] if problem else ""
