"""Recording of what GPUs do, switched on and off: CUPTI behind the native recorder.

In: sessions that begin and end.  Out: records in the native recorder's totals (`activities` reads
them), and in words what is missing or was lost.  The recorder stays CUPTI's one subscriber from the
first session on; between sessions it is paused, which costs nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

from tileprof.profiler.cupti_library import find_cupti, why_not

LIBRARY = "TILEPROF_CUPTI"
"""Environment variable: the library to load instead of the one that is found."""

_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""One of these is there where a GPU of NVIDIA's is (the last: in Windows Subsystem for Linux)."""

_LOSSES = {
    "dropped": "records that CUPTI had no buffer for",
    "evicted": "launches whose records came too late to be told apart",
    "unattributed": "records of launches that are not known",
    "foreign": "records of kinds that were not asked for",
    "unreadable": "buffers that could not be read",
    "uncaptured": "kernels of graphs that were captured before the recording",
    "late": "records that came out of order, in idle time",
    "overwritten": "events that the timeline had no room for",
}
"""Counts of the native recorder that a user should know of when they are not 0."""


class Gpu:
    """CUPTI for the recordings of this process."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native
        self._failed = False
        self.library = ""
        """Path of CUPTI, once it is loaded."""
        self.problem = ""
        """Why GPUs are not recorded, where there are some; a sentence without a capital."""

    @property
    def running(self) -> bool:
        """Whether work on GPUs is recorded."""
        return bool(self._native.gpu_started())

    def begin(self, timeline: int = 0) -> None:
        """Record from here on, if there is anything to record; `timeline`: events kept at most."""
        if self.running:
            self._report(self._native.gpu_resume())
        elif not self._failed and _has_gpu():
            path = self._find()
            if path:
                kinds = list(self._native.RECORD_KINDS.values())
                if self._report(self._native.gpu_start(path, kinds, timeline)):
                    self.library = path

    def pause(self) -> None:
        """Record nothing until `begin`."""
        if self.running:
            self._native.gpu_pause()

    def flush(self, force: bool) -> None:
        """Have records of ended work handed over; with `force` of all work, waiting for it."""
        if self.running:
            code, text = self._native.gpu_flush(force)
            if code == self._native.GPU_CODES["timed_out"]:
                self.problem = text

    def facts(self) -> dict[str, str]:
        """Return what provenance tells: the library, what is missing, what was lost."""
        facts: dict[str, str] = {}
        if self.library:
            facts["cupti"] = f"{self._native.gpu_version()} ({self.library})"
            counts = self._native.gpu_counts()
            lost = [f"{counts[key]:,} {what}" for key, what in _LOSSES.items() if counts.get(key)]
            if lost:
                facts["lost"] = "; ".join(lost)
        if self.problem:
            facts["gpu"] = f"not recorded: {self.problem}"
        return facts

    def after_fork(self) -> None:
        """Forget, in a forked child, what was the parent's: no GPU works there."""
        self._native.gpu_after_fork()
        self.library, self._failed = "", True

    def _find(self) -> str:
        if named := os.environ.get(LIBRARY):
            return named
        found = find_cupti()
        if found is None:
            self._fail(why_not())
            return ""
        return str(found.path)

    def _report(self, answer: tuple[int, str]) -> bool:
        code, text = answer
        if code == 0:
            self.problem = ""
            return True
        self._fail(text)
        return False

    def _fail(self, why: str) -> None:
        self._failed, self.problem = True, why


def _has_gpu() -> bool:
    return bool(os.environ.get(LIBRARY)) or any(Path(each).exists() for each in _DEVICES)
