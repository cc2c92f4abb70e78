"""Other users of CUPTI in this process: which there are, and when they come and go.

In: the environment, the process's map, and the profilers of PyTorch and Triton as they are called.
Out: a name for who holds CUPTI, and calls right before another profiler starts and after it ended.

A driver serves one subscriber in a process. Who comes second gets an error and, mostly, an empty
profile; so we go first, and note the gap. The calls are seen where those profilers enter their own
C++: `_prepare_profiler`, `_enable_profiler` and `_disable_profiler` of torch.autograd.profiler,
through which all of PyTorch's go, and `start` and `finalize` of Proton's library. Only tracing of a
GPU counts. Kineto keeps its subscription after its first trace unless TEARDOWN_CUPTI=1 is set, so
what resumes may find CUPTI held still. Tools of the system (DCGM, Nsight attached from outside) are
known by CUPTI's error codes alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

from tileprof.profiler.cupti.shared_objects import mapped_libraries
from tileprof.profiler.import_watch import when_imported
from tileprof.profiler.locks import new_lock
from tileprof.profiler.replaced import Replaced

_Function = Callable[..., Any]

KINETO = "torch.profiler"
PROTON = "Proton (triton.profiler)"
NSIGHT_SYSTEMS = "Nsight Systems"
NSIGHT_COMPUTE = "Nsight Compute"

_VARIABLES = (
    ("NSYS_PROFILING_SESSION_ID", NSIGHT_SYSTEMS),
    ("QUADD_INJECTION_PROXY", NSIGHT_SYSTEMS),
    ("NV_TPS_LAUNCH_TOKEN", NSIGHT_COMPUTE),
    ("NV_NSIGHT_INJECTION_PORT_BASE", NSIGHT_COMPUTE),
)
"""Variables that these tools set for the programs that they launch."""

_LIBRARIES = (
    ("libToolsInjection", NSIGHT_SYSTEMS),
    ("libcuda-injection", NSIGHT_COMPUTE),
    ("libTreeLauncherTargetInjection", NSIGHT_COMPUTE),
    ("libsanitizer-collection", "Compute Sanitizer"),
)
"""Libraries that these tools load into programs, by the begin of the name."""


def who_holds() -> str | None:
    """Return the name of a profiler that has CUPTI in this process now, None where none is seen."""
    torch = sys.modules.get("torch.autograd.profiler")
    if torch is not None and getattr(torch, "_is_profiler_enabled", False):
        return KINETO
    flags = getattr(sys.modules.get("triton.profiler.flags"), "flags", None)
    if getattr(flags, "profiling_on", False):
        return PROTON
    for variable, name in _VARIABLES:
        if variable in os.environ:
            return name
    for library in mapped_libraries():
        for prefix, name in _LIBRARIES:
            if library.name.startswith(prefix):
                return name
    injected = os.environ.get("CUDA_INJECTION64_PATH")
    return f"the tool that CUDA_INJECTION64_PATH names ({injected})" if injected else None


def who_may_hold() -> str:
    """Return the best name for who has CUPTI, where CUPTI says that somebody has it."""
    holder = who_holds()
    if holder is not None:
        return holder
    if "cupti" in sys.modules:
        return "cupti-python"
    if "triton.profiler" in sys.modules:
        return PROTON
    if getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None):
        return f"{KINETO}, which keeps it after a trace unless TEARDOWN_CUPTI=1 is set"
    return "a tool that cannot be seen from here, as DCGM or a debugger"


def who_keeps(name: str) -> str:
    """Return why nothing is recorded after the trace of a profiler, and the way out."""
    way = "what follows is recorded in a run without that trace"
    if name == KINETO and os.environ.get("TEARDOWN_CUPTI") != "1":
        way += ", or with TEARDOWN_CUPTI=1 in a session that starts after it"
    return f"{name} keeps CUPTI after its trace; {way}"


def _on_gpu(activities: Iterable[object] | None) -> bool:
    """Whether a trace of PyTorch's includes a GPU, and so CUPTI."""
    return any(getattr(each, "name", "") == "CUDA" for each in activities or ())


class OtherProfilers:
    """Calls `yield_(name)` right before another profiler of GPUs starts here, `resume()` after it.

    In the thread that starts or ends it. Where several overlap, before the first and after the
    last. `tracing` has the names of those that trace already (KINETO only): the end of the last is
    followed by `resume()`. Modules that are not imported yet are watched once they are.
    """

    def __init__(
        self,
        yield_: Callable[[str], None],
        resume: Callable[[], None],
        tracing: Iterable[Hashable] = (),
    ) -> None:
        self._yield = yield_
        self._resume = resume
        self._lock = new_lock()
        self._open: set[Hashable] = set(tracing)
        """Active sources of others' work; whatever they are, there is one gap."""
        self._replaced: list[Replaced] = []
        self._forgotten = False
        self._imports = [
            when_imported("torch.autograd.profiler", self._watch_pytorch),
            when_imported("triton.profiler.profile", self._watch_proton),
        ]

    def forget(self) -> None:
        """Watch no more, and leave the modules as they were; an open gap is not resumed."""
        with self._lock:
            self._forgotten = True
            for each in self._imports:
                each.forget()
            for replaced in reversed(self._replaced):
                replaced.put_back()
            self._replaced.clear()

    def _begin(self, what: Hashable, name: str) -> bool:
        """Note that something starts; whether it was not active before."""
        with self._lock:
            if self._forgotten or what in self._open:
                return False
            self._open.add(what)
            if len(self._open) == 1:
                self._yield(name)
            return True

    def _end(self, *over: Hashable) -> None:
        with self._lock:
            active = bool(self._open)
            self._open.difference_update(over)
            if active and not self._open and not self._forgotten:
                self._resume()

    def _replace(self, module: ModuleType, name: str, around: _Function) -> None:
        """Call `around(original, *arguments)` for a function of a module, as long as we watch."""
        original = getattr(module, name, None)
        if original is None:
            return

        @wraps(original)
        def replacement(*arguments: Any, **named: Any) -> Any:
            if self._forgotten:
                return original(*arguments, **named)
            return around(original, *arguments, **named)

        with self._lock:
            if not self._forgotten:
                self._replaced.append(Replaced(module, name, original, replacement))

    def _watch_pytorch(self, module: ModuleType) -> None:
        def begin(original: _Function, *arguments: Any, **named: Any) -> Any:
            activities = arguments[1] if len(arguments) > 1 else named.get("activities")
            begun = _on_gpu(activities) and self._begin(KINETO, KINETO)
            try:
                return original(*arguments, **named)
            except BaseException:
                if begun:
                    self._end(KINETO)
                raise

        def end(original: _Function, *arguments: Any, **named: Any) -> Any:
            try:
                return original(*arguments, **named)
            finally:
                self._end(KINETO)

        self._replace(module, "_prepare_profiler", begin)
        self._replace(module, "_enable_profiler", begin)
        self._replace(module, "_disable_profiler", end)

    def _watch_proton(self, module: ModuleType) -> None:
        library = getattr(module, "libproton", None)
        if not isinstance(library, ModuleType):
            return

        def start(original: _Function, *arguments: Any, **named: Any) -> Any:
            if "cupti" not in (*arguments[3:4], named.get("backend")):
                return original(*arguments, **named)
            starting = object()
            self._begin(starting, PROTON)
            try:
                session = original(*arguments, **named)
                self._begin((PROTON, session), PROTON)
                return session
            finally:
                self._end(starting)

        def finalize(original: _Function, *arguments: Any, **named: Any) -> Any:
            try:
                return original(*arguments, **named)
            finally:
                self._end((PROTON, arguments[0] if arguments else named.get("sessionId")))

        def finalize_all(original: _Function, *arguments: Any, **named: Any) -> Any:
            try:
                return original(*arguments, **named)
            finally:
                self._end(*[each for each in self._open if isinstance(each, tuple)])

        self._replace(library, "start", start)
        self._replace(library, "finalize", finalize)
        self._replace(library, "finalize_all", finalize_all)
