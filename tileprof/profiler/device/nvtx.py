"""NVTX ranges of the program, through the native recorder.

In: a process in which a session begins.  Out: the environment variable by which each library's copy
of NVTX finds its tool, set for this process; what the ranges become is the native recorder's
(native/recorder/host/nvtx.cpp).

A copy of NVTX reads the variable once, at the first call of the library that it is in, so `enable`
comes before the program; libraries that called NVTX earlier stay without ranges. The variable holds
a name that only a process with the recorder in it can resolve, and `os.environ` does not show it: a
program finds its environment as it was, and a child that inherits the variable and is not profiled
has NVTX as it is without any tool. It stays until the process ends, for libraries that are loaded
later.
"""

from __future__ import annotations

import os

from tileprof.profiler import native

VARIABLE = "NVTX_INJECTION64_PATH"
LIBRARY = "libtileprof_recorder.so"
"""The SONAME of the native recorder (CMakeLists.txt)."""


def enable() -> bool:
    """Let libraries that use NVTX from now on record their ranges; `why_not` tells why not."""
    recorder = native.native_recorder()
    if recorder is None:
        return False
    holder = recorder.getenv(VARIABLE)
    if not holder:
        os.putenv(VARIABLE, LIBRARY)
    return holder in ("", LIBRARY)


def why_not() -> str:
    """Return why NVTX ranges are not recorded in this process, '' where `enable` works."""
    recorder = native.native_recorder()
    if recorder is None:
        return f"there is no native recorder, {native.why_not()}"
    holder = recorder.getenv(VARIABLE)
    if holder in ("", LIBRARY):
        return ""
    return f"another tool receives them ({VARIABLE} is {holder})"
