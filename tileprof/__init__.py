"""Where does the time of a GPU program go, why, and what to change.

In: tile kernels (`tileprof.lang`) and whole programs.  Out: profiles.  The public names, and
nothing else.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileprof.analyzer.report import analyze
    from tileprof.checker import check
    from tileprof.compiler.cuda.controls import Controls
    from tileprof.drawing import show
    from tileprof.errors import TileprofError
    from tileprof.lang.jit_function import compile, jit
    from tileprof.lang.recorded import events
    from tileprof.lang.saved import load_kernel
    from tileprof.operators import jax_call, op
    from tileprof.profile import Profile, load
    from tileprof.profiler import (
        Session,
        activate,
        deactivate,
        finalize,
        profile,
        scope,
        start,
        step,
    )
    from tileprof.runtime.selection import device
    from tileprof.tuning import autotune, triton_pruner

__version__ = "0.1.0"

__all__ = [
    "Controls",
    "Profile",
    "Session",
    "TileprofError",
    "__version__",
    "activate",
    "analyze",
    "autotune",
    "check",
    "compile",
    "deactivate",
    "device",
    "events",
    "finalize",
    "jax_call",
    "jit",
    "load",
    "load_kernel",
    "op",
    "profile",
    "scope",
    "show",
    "start",
    "step",
    "triton_pruner",
]

_LATE = {
    "Controls": "tileprof.compiler.cuda.controls",
    "Profile": "tileprof.profile",
    "Session": "tileprof.profiler",
    "TileprofError": "tileprof.errors",
    "activate": "tileprof.profiler",
    "analyze": "tileprof.analyzer",
    "check": "tileprof.checker",
    "compile": "tileprof.lang",
    "autotune": "tileprof.tuning",
    "deactivate": "tileprof.profiler",
    "device": "tileprof.runtime.selection",
    "events": "tileprof.lang.recorded",
    "finalize": "tileprof.profiler",
    "jax_call": "tileprof.operators",
    "jit": "tileprof.lang",
    "load": "tileprof.profile",
    "load_kernel": "tileprof.lang.saved",
    "op": "tileprof.operators",
    "scope": "tileprof.profiler",
    "show": "tileprof.drawing",
    "start": "tileprof.profiler",
    "step": "tileprof.profiler",
    "triton_pruner": "tileprof.tuning",
}
"""Modules of the public names, loaded at first use.

`once.names_of` says why none is imported here. Besides, a program that is only profiled pays
for neither compiler nor analyzer.
"""


class _Package(ModuleType):
    """The package, in which `profile` is the function although it is also a package's name."""

    @property
    def profile(self) -> Any:
        """The decorator of the profiler."""
        return import_module("tileprof.profiler").profile

    @profile.setter
    def profile(self, module: ModuleType) -> None:
        """Ignore the package, which Python puts here when it is imported."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in _LATE:
        found = getattr(import_module(_LATE[name]), name)
    elif not name.startswith("__") and find_spec(f"{__name__}.{name}"):
        found = import_module(f"{__name__}.{name}")
    else:
        sentence = f"module 'tileprof' has no attribute '{name}'{_meant(name)}"
        # With another object, Python adds no suggestion of its own after ours.
        raise AttributeError(sentence, name=name, obj=None)
    globals()[name] = found
    return found


def _meant(name: str) -> str:
    """Return a question that names the nearest public name; nothing where none is near."""
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, n=1)
    return f". Did you mean: '{near[0]}'?" if near else ""
