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


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        sentence = f"module 'tileprof' has no attribute '{name}'{_meant(name)}"
        # With another object, Python adds no suggestion of its own after ours.
        raise AttributeError(sentence, name=name, obj=None)
    found = getattr(import_module(_LATE[name]), name)
    globals()[name] = found
    return found


def _meant(name: str) -> str:
    """Return a question that names the nearest public name; nothing where none is near."""
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, n=1)
    return f". Did you mean: '{near[0]}'?" if near else ""
