"""PyTorch's operations, told to the native recorder by PyTorch itself.

In: the native recorder, and PyTorch once the program has imported it.  Out: while attached, every
operation, range and node of a backward pass of PyTorch's is an entry of the thread that runs it,
with flops and bytes where shapes tell them; operations inside such nodes only where asked for.  The
observer is a small library in C++ (native/observer/) that fits one build of PyTorch: it is compiled
when it is first wanted and kept in the cache. Where that is impossible, `why_not` tells, and
PyTorch's NVTX ranges serve instead.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tileprof.errors import TileprofError
from tileprof.native.building import find_compiler
from tileprof.profiler import native
from tileprof.profiler.frameworks.observer_library import Tell, load, named_apart, to_stderr
from tileprof.profiler.frameworks.observer_threads import NewThreads, others
from tileprof.profiler.frameworks.recomputation import Recomputation
from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.locks import new_lock
from tileprof.profiler.tree import paths

_lock = new_lock()
_wanted = False
_paused = False
_backward_ops = False
_watch: Watch | None = None
_attached: _Observer | _Ranges | None = None
_library: Any = None
"""Loaded once in a process."""
_reason = ""
"""Why the last attempt failed."""


def attach(tell: Tell | None = None, *, backward_ops: bool = False) -> None:
    """Record PyTorch's operations from now on, or from when it is imported; again ends a pause.

    Those inside nodes of the backward pass only with `backward_ops`, else the nodes alone. `tell`
    is given a line when compiling takes long; by default it goes to stderr.
    """
    global _watch, _wanted, _paused, _backward_ops
    recorder = native.native_recorder()
    with _lock:
        _paused, _backward_ops = False, backward_ops
        if _attached is not None:
            _attached.resume(backward_ops)
        if recorder is None or _watch is not None:
            return
        told = to_stderr if tell is None else tell
        _wanted = True
        _watch = when_imported("torch", lambda torch: _start(recorder, torch, told))


def pause() -> None:
    """Let operations cost nothing until `attach` is called again, which may be soon."""
    global _paused
    with _lock:
        _paused = True
        if _attached is not None:
            _attached.pause()


def detach() -> None:
    """Record them no more; nothing of PyTorch's is replaced any more."""
    global _watch, _attached, _wanted
    with _lock:
        _wanted = False
        if _watch is not None:
            _watch.forget()
        if _attached is not None:
            _attached.stop()
        _watch = _attached = None


def why_not() -> str:
    """Return why PyTorch's operations are not recorded; '' where they are or would be."""
    if reason := _reason or native.why_not():
        return reason
    if find_compiler() is None and not isinstance(_attached, _Observer):
        return "there is no C++ compiler"
    if "torch" not in sys.modules and find_spec("torch") is None:
        return "PyTorch is not installed"
    return ""


def facts() -> dict[str, str]:
    """Return what provenance tells: PyTorch's version and how its operations were recorded."""
    torch = sys.modules.get("torch")
    if torch is None or (_attached is None and not _reason):
        return {}
    how = _attached.how if _attached is not None else "not recorded"
    reason = f" ({_reason})" if _reason else ""
    return {"torch": str(torch.__version__), "torch operations": how + reason}


def use_ranges() -> bool:
    """Let PyTorch mark the calling thread's operations, and their backward, as NVTX ranges.

    Instead of observing them; False where PyTorch has no CUDA or another profiler is active.
    """
    global _attached
    recorder, torch = native.native_recorder(), sys.modules.get("torch")
    if recorder is None or torch is None:
        return False
    with _lock:
        if _attached is not None:
            _attached.stop()
            _attached = None
        # The ranges are started only where CUDA was compiled in; asking for a GPU would begin
        # to use it, and a program may want to fork before that.
        if torch.version.cuda is not None:
            with suppress(RuntimeError, ImportError, AttributeError, TypeError):
                _attached = _Ranges(recorder, torch)
    return _attached is not None


def _start(recorder: ModuleType, torch: ModuleType, tell: Tell) -> None:
    global _attached, _library, _reason
    with _lock:
        # Another thread may have changed its mind while this one imported PyTorch.
        if not _wanted:
            return
        _hide_calls_of_ranges(torch)
        try:
            if _library is None:
                with named_apart(recorder, "observer of PyTorch (tileprof)"):
                    _library = load(torch, tell)
            _attached = _Observer(recorder, torch, _library, _backward_ops)
            _reason = ""
            if _paused:
                _attached.pause()
        except (TileprofError, OSError, AttributeError) as error:
            _reason = error.message if isinstance(error, TileprofError) else str(error)
            use_ranges()


def _hide_calls_of_ranges(torch: Any) -> None:
    """A range hangs under the `with` statement, not under what PyTorch calls to open it."""
    with suppress(AttributeError):
        ops = sys.modules["torch._ops"]
        paths.hide(torch.autograd.profiler.record_function.__enter__.__code__)
        paths.hide(ops.OpOverloadPacket.__call__.__code__)
        paths.hide(ops.OpOverload.__call__.__code__)


class _Backward:
    """PyTorch's call of its engine, replaced while it is recorded where backward passes begin."""

    def __init__(self, recorder: ModuleType, torch: Any, begin: int = 0, end: int = 0) -> None:
        self._modules = [
            module
            for module in (torch.autograd, torch.autograd.graph)
            if hasattr(module, "_engine_run_backward")
        ]
        self._engine = getattr(torch.autograd.graph, "_engine_run_backward", None)
        self._ours = recorder.around_backward(self._engine, begin, end)
        self._put(self._engine, self._ours)

    def stop(self) -> None:
        """Put back what was there, unless somebody has put something else there since."""
        self._put(self._ours, self._engine)

    def _put(self, old: Any, new: Any) -> None:
        for module in self._modules:
            if module._engine_run_backward is old:
                module._engine_run_backward = new


class _Observer:
    """The observer at work."""

    how = "observed"

    def __init__(
        self, recorder: ModuleType, torch: ModuleType, library: Any, backward_ops: bool
    ) -> None:
        self._recorder = recorder
        self._library = library
        self._table = recorder.observer_table()
        self._handle = 0
        self._backward_ops = backward_ops
        self._all_threads = others()
        """Whether those that are there already have to be observed too."""
        self._thread = threading.get_ident()
        """The one that observes itself, with those that begin later."""
        self._start()
        if not self._handle:
            raise OSError(f"PyTorch {torch.__version__} takes no observer")
        self._new_threads = NewThreads(library.tileprof_observer_thread)
        self._recomputation = Recomputation(library)
        library.tileprof_observer_count_work()
        recorder.ask_besides(_address(library.tileprof_backward_here))
        begin, end = library.tileprof_backward_begin, library.tileprof_backward_end
        self._backward = _Backward(recorder, torch, _address(begin), _address(end))

    def _start(self) -> None:
        # Another thread than the one that paused cannot begin anew for it.
        self._all_threads |= threading.get_ident() != self._thread
        threads = self._all_threads or self._backward_ops
        start = self._library.tileprof_observer_start
        self._handle = start(self._table, threads, self._backward_ops)
        if not threads:
            self._library.tileprof_observer_thread()

    def stop(self) -> None:
        self._backward.stop()
        self._recomputation.stop()
        self._new_threads.stop()
        self.pause()
        self._recorder.ask_besides(0)

    def pause(self) -> None:
        handle, self._handle = self._handle, 0
        if handle:
            self._library.tileprof_observer_stop(handle)

    def resume(self, backward_ops: bool) -> None:
        if backward_ops != self._backward_ops:
            self.pause()
            self._backward_ops = backward_ops
        if not self._handle:
            self._start()


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _Ranges:
    """PyTorch's own NVTX ranges, as `torch.autograd.profiler.emit_nvtx` makes them."""

    how = "as NVTX ranges of one thread"

    def __init__(self, recorder: ModuleType, torch: Any) -> None:
        c = torch._C
        config = c._profiler.ProfilerConfig(
            c._profiler.ProfilerState.NVTX,
            *(False,) * 5,
            c._profiler._ExperimentalConfig(),
        )
        # `emit_nvtx` itself would wait for the GPU, and so begin to use it.
        c._autograd._enable_profiler(config, set())
        self._disable = c._autograd._disable_profiler
        self._thread = threading.get_ident()
        self._profiler = torch.autograd.profiler
        self._enable, self._replacement = self._profiler._enable_profiler, self._make_way
        self._profiler._enable_profiler = self._replacement
        self._backward = _Backward(recorder, torch)

    def stop(self) -> None:
        self._backward.stop()
        self._end()

    def pause(self) -> None:
        """Nothing: only their own thread could end them, and begin them anew."""

    def resume(self, backward_ops: bool) -> None:
        """Nothing."""

    def _make_way(self, *arguments: Any, **named: Any) -> Any:
        """Another profiler of PyTorch's begins, which has room for one in a thread."""
        if threading.get_ident() == self._thread:
            self._end()
            self.how = "as NVTX ranges of one thread, until another profiler began"
        return self._enable(*arguments, **named)

    def _end(self) -> None:
        if self._profiler._enable_profiler is self._replacement:
            self._profiler._enable_profiler = self._enable
        if self._thread == threading.get_ident():
            self._thread = 0
            with suppress(RuntimeError):
                self._disable()
