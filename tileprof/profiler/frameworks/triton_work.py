"""Work and names of Triton's launches: those of their authors (`launch_metadata`), else derived.

In: launches, through Triton's own hooks, and the arguments of launches.  Out: flops and bytes of a
launch, announced to the native recorder right before it; a range around a launch that its author
gives a name of its own, as Proton shows it; files of kernels and of what launches them.

The hook gets a launch's metadata alone, so `CompiledKernel.launch_metadata`, which makes them from
the launch's arguments, is wrapped while a recording listens, and puts the derived work on them. A
version of Triton that does this in another way has no derived work; nothing is raised there.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Any

from tileprof.profile import LaunchVariant
from tileprof.profiler.frameworks.triton_arguments import KernelArguments, TritonArguments
from tileprof.profiler.frameworks.triton_bytes import Estimate, estimate
from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.replaced import Replaced

_FLOPS = ("flops", "flops8", "flops16", "flops32", "flops64")
"""Names that Triton's tools give to operations, in all or by the bits of an operand."""

_ALWAYS = 3
"""Entries of every launch: name, function, stream."""

_DERIVED = "tileprof_work"
"""Attribute of a launch's metadata: flops and bytes that were derived; None if not known."""

_NOTHING = 0.0, 0.0

_NAME = "name"
_DOMAIN = "triton"
"""Domain of the ranges around launches that have names."""

_OF_LAUNCHES = ("triton", __name__.partition(".")[0])
"""Packages whose code is between a user's launch and what listens to it."""

_METHOD = "launch_metadata"
_BEFORE = 3
"""Arguments of that method before those of the kernel: the compiled kernel, grid, stream."""


class _Open(threading.local):
    """Whether a launch of this thread that has a name is under way."""

    now = False


class TritonWork:
    """Listens to Triton's launches until it is told to stop; not while it is paused."""

    def __init__(self, recorder: ModuleType) -> None:
        self._recorder = recorder
        self._paused = False
        self._hooks: list[tuple[Any, Any]] = []
        """Chains of Triton's hooks, each with what was added to it."""
        self._open = _Open()
        self._watch: Watch = when_imported("triton.knobs", self._attach)
        self._deriving = _Deriving()

    @property
    def files(self) -> list[str]:
        """Files of the kernels that were launched, and of the lines that first launched them.

        Debug information names the file that a kernel was compiled from, which may be another one
        with the same text, as Triton keeps compiled kernels by their text.
        """
        return list(self._deriving.files)

    @property
    def launches(self) -> tuple[LaunchVariant, ...]:
        """Arguments of the launches until now."""
        return self._deriving.arguments.variants()

    def pause(self, paused: bool) -> None:
        """Announce nothing while nothing is recorded: the next kernel that is would be given it."""
        self._paused = paused
        self._deriving.on = not paused

    def stop(self) -> None:
        """Listen no more."""
        self._watch.forget()
        self._deriving.stop()
        for hooks, mine in self._hooks:
            hooks.remove(mine)
        self._hooks.clear()

    def _attach(self, knobs: ModuleType) -> None:
        runtime = getattr(knobs, "runtime", None)
        for name, mine in (("launch_exit_hook", self._over), ("launch_enter_hook", self._launched)):
            hooks: Any = getattr(runtime, name, None)
            # Before Triton 3.5 there was room for one hook, which is somebody else's.
            if hasattr(hooks, "add") and hasattr(hooks, "remove"):
                hooks.add(mine)
                self._hooks.append((hooks, mine))

    def _launched(self, metadata: Any) -> None:
        """Announce the work of a launch, and its name; what its author says comes first."""
        if self._open.now:
            self._over()  # the launch before failed
        if self._paused:
            return
        flops, moved = getattr(metadata, _DERIVED, None) or _NOTHING
        if metadata.extras or len(metadata.data) > _ALWAYS:
            kernel = metadata.data.get(_NAME)
            told = metadata.get()
            self._begin(told.get(_NAME), kernel)
            flops = sum(_number(told.get(name)) for name in _FLOPS) or flops
            moved = _number(told.get("bytes")) or moved
        # Also nothing: a launch before this one may not have reached the device.
        self._recorder.announce_work(flops, moved)

    def _begin(self, name: object, kernel: object) -> None:
        """Open a range of this name, where it is another one than the kernel's."""
        # Where nobody hears of the end, the range would never end.
        if isinstance(name, str) and name and name != kernel and len(self._hooks) > 1:
            self._recorder.push_range(name, _DOMAIN)
            self._open.now = True

    def _over(self, metadata: Any = None) -> None:
        """Close the range of a launch that has one."""
        if self._open.now:
            self._open.now = False
            self._recorder.pop_range(_DOMAIN)


@dataclass(eq=False, slots=True)
class _Learned:
    """Facts of a compiled kernel; those that its version of Triton does not tell stay None."""

    kernel: weakref.ref[Any]
    arguments: KernelArguments | None = None
    estimate: Estimate | None = None


class _Deriving:
    """Puts derived work on the metadata of launches, until it is told to stop."""

    def __init__(self) -> None:
        self._learned: dict[int, _Learned] = {}
        """Facts of compiled kernels, by their identities."""
        self._named: dict[tuple[str, tuple[str, ...]], KernelArguments] = {}
        self.arguments = TritonArguments()
        """Arguments of launches."""
        self._replaced: Replaced | None = None
        self.on = True
        """Whether work is derived."""
        self.files: dict[str, None] = {}
        """Files of kernels and of what launches them, in the order of the first launches."""
        self._watch: Watch = when_imported("triton.compiler.compiler", self._attach)

    def stop(self) -> None:
        """Put Triton's own method back, unless somebody has wrapped ours, which then does nothing.

        What was found of kernels is forgotten.
        """
        self._watch.forget()
        self.on = False
        self._learned.clear()
        self.arguments.forget()
        if self._replaced is not None:
            self._replaced.put_back()

    def _attach(self, compiler: ModuleType) -> None:
        owner: Any = getattr(compiler, "CompiledKernel", None)
        original = vars(owner).get(_METHOD) if isinstance(owner, type) else None
        if not callable(original):
            return

        @functools.wraps(original)
        def launch_metadata(*given: Any, **named: Any) -> Any:
            metadata = original(*given, **named)
            if self.on:
                self._derive(metadata, given)
            return metadata

        self._replaced = Replaced(owner, _METHOD, original, launch_metadata)

    def _derive(self, metadata: Any, given: tuple[Any, ...]) -> None:
        """Put flops and bytes of a launch on its metadata, by the arguments of Triton's method.

        Nothing is raised, as the user's launch goes on in any case.
        """
        try:
            kernel = given[0]
            try:
                learned = self._learned[id(kernel)]
            except KeyError:
                learned = self._learn(kernel, metadata)
            found = learned.estimate
            try:
                if learned.arguments is not None:
                    stored = found.stored if found is not None else frozenset[int]()
                    self.arguments.see(learned.arguments, given, stored, _BEFORE)
            finally:
                if found is not None:
                    metadata.tileprof_work = found.of(given[1], given)
        except Exception:
            return

    def _learn(self, kernel: Any, metadata: Any) -> _Learned:
        key, known = id(kernel), self._learned
        # Another object may have this identity later.
        learned = known[key] = _Learned(weakref.ref(kernel, lambda _: known.pop(key, None)))
        self.files |= dict.fromkeys(_files(kernel))
        function = kernel.src.fn
        name = getattr(function, "__name__", None) or str(metadata.data[_NAME])
        names = name, tuple(function.arg_names)
        learned.arguments = self._named.setdefault(names, KernelArguments(*names))
        learned.estimate = estimate(kernel, _BEFORE)
        return learned


def _files(kernel: Any) -> Iterator[str]:
    """Yield the file of a kernel's function, and that of the code which launches it right now."""
    source = getattr(kernel, "src", None)
    function = getattr(getattr(source, "fn", None), "fn", None)
    if isinstance(function, FunctionType):
        yield function.__code__.co_filename
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _OF_LAUNCHES:
            yield frame.f_code.co_filename
            return
        frame = frame.f_back


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
