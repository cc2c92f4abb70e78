"""The thread that copies to the host what kernels on GPUs write, and what each device has of it.

In: notices of launches; the profiler's wish to have everything.  Out: `Records` and `Samples` that
are read while their launches go on.
"""

from __future__ import annotations

import os
import threading

from tileprof.native.array_memory import arrays_in_pages
from tileprof.once import Guard, once
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.waiting import PATIENCE_S, begin_waiting

from .recorder import Records
from .samples import Samples

PERIOD_S = 0.1
"""Seconds between two readings while launches are under way."""


class Reader:
    """Copies records to the host while launches are under way; for all devices of the process."""

    def __init__(self) -> None:
        self.devices: dict[int, Records] = {}
        self.sampled: dict[int, Samples] = {}
        self._wanted, self._soon = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = Guard()
        hooks.collectors.append(self)

    def notice(self, soon: bool) -> None:
        """A launch will write records; `soon`: there is not much room left."""
        if self._thread is None:
            self._start()
        if not self._wanted.is_set():
            self._wanted.set()
        if soon and not self._soon.is_set():
            self._soon.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="tileprof records", daemon=True)
                thread.start()
                self._thread = thread

    def collect(self, final: bool) -> None:
        """Hand over what all devices have."""
        held = self._all()
        for device in {each.device for each in held if final and each.is_busy}:
            begin_waiting(device, PATIENCE_S)
        for each in held:
            each.collect(final)

    def _all(self) -> list[Records | Samples]:
        return [*self.devices.values(), *self.sampled.values()]

    def _run(self) -> None:
        ident = threading.get_ident()
        hooks.own_threads.add(ident)
        arrays_in_pages()
        try:
            while True:
                self._turn()
        finally:
            # The next thread with this number is the program's.
            hooks.own_threads.discard(ident)

    def _turn(self) -> None:
        """Wait until there may be something to read, and read it."""
        self._wanted.wait()
        self._soon.wait(PERIOD_S)
        self._soon.clear()
        self._wanted.clear()
        for each in self._all():
            each.read()
            if each.is_busy:
                self._wanted.set()


@once
def reader() -> Reader:
    """Return the reader of this process."""
    return Reader()


def records_of(device: CudaDevice) -> Records:
    """Return the records of a device, made on first use."""
    devices = reader().devices
    return devices.get(device.number) or devices.setdefault(
        device.number, Records(device, reader().notice)
    )


def samples_of(device: CudaDevice) -> Samples:
    """Return the same of samples."""
    sampled = reader().sampled
    return sampled.get(device.number) or sampled.setdefault(
        device.number, Samples(device, reader().notice)
    )


def _after_fork() -> None:
    """A child has neither the devices nor the thread."""
    hooks.collectors[:] = [each for each in hooks.collectors if not isinstance(each, Reader)]
    reader.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
