"""Work of Triton's kernels, as their authors tell it by `launch_metadata`.

In: launches, through Triton's own hook.  Out: flops and bytes of a launch, announced to the native
recorder right before it.  A kernel without `launch_metadata` costs one call that returns at once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tileprof.profiler.import_watch import Watch, when_imported

_FLOPS = ("flops", "flops8", "flops16", "flops32", "flops64")
"""Names that Triton's tools give to operations, in all or by the bits of an operand."""

_ALWAYS = 3
"""Entries of every launch: name, function, stream."""


class TritonWork:
    """Listens to Triton's launches until it is told to stop."""

    def __init__(self, recorder: ModuleType) -> None:
        self._recorder = recorder
        self._hooks: Any = None
        self._watch: Watch = when_imported("triton.knobs", self._attach)

    def stop(self) -> None:
        """Listen no more."""
        self._watch.forget()
        if self._hooks is not None:
            self._hooks.remove(self._launched)

    def _attach(self, knobs: ModuleType) -> None:
        hooks: Any = getattr(getattr(knobs, "runtime", None), "launch_enter_hook", None)
        # Before Triton 3.5 there was room for one hook, which is somebody else's.
        if hasattr(hooks, "add") and hasattr(hooks, "remove"):
            hooks.add(self._launched)
            self._hooks = hooks

    def _launched(self, metadata: Any) -> None:
        """Announce the work of a launch, where its author tells any."""
        if not metadata.extras and len(metadata.data) <= _ALWAYS:
            return
        told = metadata.get()
        flops = sum(_number(told.get(name)) for name in _FLOPS)
        self._recorder.announce_work(flops, _number(told.get("bytes")))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
