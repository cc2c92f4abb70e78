"""Where does the time of a GPU program go, why, and what to change.

In: tile kernels (`tileprof.lang`) and whole programs.  Out: profiles.  The public names, and
nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# `profile` is a package and a function here: the package is imported first, then the name is the
# function's; `from tileprof.profile import …` goes on to find the package.
from tileprof.errors import TileprofError
from tileprof.profile import Profile, load
from tileprof.profiler import Session, activate, deactivate, finalize, profile, scope, start, step

if TYPE_CHECKING:
    from tileprof.analyzer.report import analyze
    from tileprof.compiler.cuda.controls import Controls
    from tileprof.lang.jit_function import compile, jit
    from tileprof.lang.saved import load_kernel
    from tileprof.runtime.selection import device

__version__ = "0.1.0"

__all__ = [
    "Controls",
    "Profile",
    "Session",
    "TileprofError",
    "__version__",
    "activate",
    "analyze",
    "compile",
    "deactivate",
    "device",
    "finalize",
    "jit",
    "load",
    "load_kernel",
    "profile",
    "scope",
    "start",
    "step",
]

_LATE = {
    "Controls": "tileprof.compiler.cuda.controls",
    "analyze": "tileprof.analyzer",
    "compile": "tileprof.lang",
    "jit": "tileprof.lang",
    "load_kernel": "tileprof.lang.saved",
    "device": "tileprof.runtime.selection",
}
"""Loaded at first use: a program that is only profiled pays for neither compiler nor analyzer."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'tileprof' has no attribute '{name}'")
    found = getattr(import_module(_LATE[name]), name)
    globals()[name] = found
    return found
