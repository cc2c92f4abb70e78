"""Failed checks that launches noted while nobody waited for them; a later call tells of them.

In: launches whose functions take `notes` (compiler/cuda/source.py), and calls of any kernel.  Out:
the addresses of their reports, and an error from a call after the one that was wrong, as CUDA tells
of faults.

    launch, in order to raise itself       launch, as it is done here
    clear a report                         take the report of such launches
    cuLaunchKernelEx                       cuLaunchKernelEx
    cuStreamSynchronize
    read the report, raise                 in the next call: read one word; where it is not 0, wait
                                           for the device, read its reports, raise

A note is numbers; the variant, the launch, the grid and the symbols put them into words.  So each
combination of these has a report of its own, which a graph that is replayed at any time goes on to
write.  A report is free for another combination once the device has been waited for and no graph,
no plan of the native launcher and no call on its way to the driver holds it.

The device sets the word after the `failed` of a report, and a report's values after both.  So the
word is cleared before reports are looked at: a note that comes meanwhile sets it again.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int32
from typing import TYPE_CHECKING

from tileprof.errors import TileprofError

from .driver import FAULTS, HOST_PORTABLE_MAPPED, DriverFailure
from .report import HEAD_BYTES, Origin, Report

if TYPE_CHECKING:
    from .device import CudaDevice

_EACH = -(-HEAD_BYTES // 64) * 64
"""Bytes from report to report: whole lines, which no two launches write at once."""
_AT_ONCE = 255
"""Reports that are allocated together, behind room for the word."""
_MOST = 4096
"""Reports in use before those are looked for that nobody holds any more."""
_BLOCKING = "CUDA_LAUNCH_BLOCKING"


class Lent:
    """The report of one combination, for as long as somebody holds this."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, address: int) -> None:
        self.address = address


class _Slot:
    """A report, and whose notes it takes; None for nobody's."""

    __slots__ = ("holder", "origin", "report")

    def __init__(self, report: Report) -> None:
        self.report = report
        self.origin: Origin | None = None
        self.holder: Callable[[], Lent | None] = lambda: None


class Notes:
    """The notes of one device's launches."""

    def __init__(self, device: CudaDevice) -> None:
        self.is_blocking = os.environ.get(_BLOCKING, "0") not in ("", "0")
        """Whether the user wants each call to wait, and to tell of itself."""
        self._device, self._driver = device, device.driver
        self._word: c_int32 | None = None
        """Word in mapped memory that is not 0 if something was noted."""
        self._slots: list[_Slot] = []
        self._free: list[_Slot] = []
        self._lent: dict[Origin, Lent] = {}
        self._captured: set[Lent] = set()
        self._most = _MOST
        self._lock = threading.RLock()

    # -- launches

    def lend(self, origin: Origin, *, captured: bool) -> Lent:
        """Return the report for a launch, which is enqueued before the caller drops it; `captured`:
        into a graph, which may be replayed as long as the process lives."""
        lent = self._lent.get(origin)
        if lent is None:
            with self._lock:
                lent = self._lent.get(origin) or self._new(origin, captured)
        if captured:
            self._captured.add(lent)
        return lent

    def word(self) -> int:
        """Address of the word that is not 0 where `check` has something to raise."""
        with self._lock:
            if self._word is None:
                self._allocate()
            return self._slots[0].report.address - _EACH

    def _new(self, origin: Origin, captured: bool) -> Lent:
        if not self._free and len(self._slots) >= self._most and not captured:
            self._reclaim()
        if not self._free:
            self._allocate()
        slot = self._free.pop()
        lent = self._lent[origin] = Lent(slot.report.address)
        slot.origin, slot.holder = origin, weakref.ref(lent)
        return lent

    def _allocate(self) -> None:
        size = (1 + _AT_ONCE) * _EACH
        with self._device.current(), self._driver.beside_captures():
            start = self._driver.pointer("cuMemHostAlloc", size, HOST_PORTABLE_MAPPED)
        if self._word is None:
            self._word = c_int32.from_address(start)
            self._word.value = 0
            _told.append(self)
            word = start
        else:
            word = self._slots[0].report.address - _EACH
        made = [_Slot(Report(start + n * _EACH, word)) for n in range(1, 1 + _AT_ONCE)]
        self._slots += made
        self._free += reversed(made)

    def _reclaim(self) -> None:
        """Free the reports that nobody holds, once nothing that was launched can write them."""
        self._lent.clear()
        dead = []
        for slot in self._slots:
            lent = slot.holder()
            if lent is None:
                dead.append(slot)
            elif slot.origin is not None:
                self._lent[slot.origin] = lent
        if self._is_over():
            self._free = [slot for slot in dead if not slot.report.failed]
        if 2 * len(self._free) < len(self._slots):
            self._most = 2 * len(self._slots)

    def _is_over(self) -> bool:
        """Wait for the device; False where this cannot be, since a stream is being captured."""
        try:
            with self._device.current(), self._driver.beside_captures():
                self._driver.call("cuCtxSynchronize")
        except DriverFailure as failure:
            return failure.code in FAULTS  # nothing runs any more, and what was written is there
        return True

    # -- what they noted

    def check(self, stream: int) -> None:
        """Raise what an earlier launch has noted, in one of the threads that ask; for a call on a
        stream of the thread's context."""
        word = self._word
        # A capture can neither wait nor go on after an error that is not its own.
        if word is None or not word.value or self._driver.is_capturing(stream):
            return
        error = self._take(self._is_over)
        if error is not None:
            raise error

    def _take(self, wait: Callable[[], bool]) -> TileprofError | None:
        """Return the error of one note, which then is forgotten."""
        with self._lock:
            word = self._word
            if word is None or not word.value:
                return None
            word.value = 0
            over = wait()
            noted = [slot for slot in self._slots if slot.report.failed]
            # One that came after the wait may not be complete.
            if not over or (noted and not wait()):
                word.value = 1
                return None
            if not noted:
                return None
            error = _error(noted[0])
            noted[0].report.forget_failure()
            if len(noted) > 1:
                word.value = 1
            return error

    def tell_rest(self) -> None:
        """Write to stderr, at the end of the program, what no call has raised."""
        from .waiting import PATIENCE_S, wait_for

        if not self._lent:
            return
        wait_for(self._device, PATIENCE_S)
        # Another thread may hold it and wait for a kernel that never ends.
        if not self._lock.acquire(timeout=PATIENCE_S):
            return
        while (error := self._take(lambda: True)) is not None:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        self._lock.release()


def _error(slot: _Slot) -> TileprofError | None:
    """Return the error in a report, worded like that of a launch that was waited for, with its
    kernel."""
    assert slot.origin is not None
    try:
        slot.report.raise_failure(slot.origin)
    except TileprofError as error:
        return type(error)(
            f"{error.message}, noted by an earlier launch of `{slot.origin.kernel.name}`",
            location=error.location,
            hint=f"{error.hint} {_BLOCKING}=1 makes the call raise that it was.".lstrip(),
        )
    return None


_told: list[Notes] = []
"""Notes that have reports."""


def _tell_all() -> None:
    for each in _told:
        with suppress(TileprofError):
            each.tell_rest()


atexit.register(_tell_all)
if hasattr(os, "register_at_fork"):
    # A child has neither the devices nor their memory.
    os.register_at_fork(after_in_child=_told.clear)
