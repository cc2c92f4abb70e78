"""Waiting for devices at the end of a recording, but not for ever: a kernel may never end.

In: devices.  Out: whether they have nothing to do any more.  Several are waited for at once, so
that many that hang take as long as one.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tileprof.runtime import hooks

from .device import CudaDevice
from .driver import DriverFailure

PATIENCE_S = 10.0
"""Seconds that the end of a recording waits for a device."""


@dataclass(frozen=True, slots=True)
class _Wait:
    thread: threading.Thread
    until: float
    """Deadline on the monotonic clock."""


_waits: WeakKeyDictionary[CudaDevice, _Wait] = WeakKeyDictionary()
"""The last of each device."""


def begin_waiting(device: CudaDevice, seconds: float) -> None:
    """Begin to wait so long from now on; `wait_for` then takes what is left of that."""
    held = _waits.get(device)
    thread = held.thread if held is not None and held.thread.is_alive() else _started(device)
    _waits[device] = _Wait(thread, time.monotonic() + seconds)


def wait_for(device: CudaDevice, seconds: float) -> bool:
    """Return whether the device has nothing to do any more, within so many seconds; within what is
    left where somebody waits for it already."""
    held = _waits.get(device)
    if held is None or not held.thread.is_alive():
        begin_waiting(device, seconds)
        held = _waits[device]
    if held.thread.is_alive():
        held.thread.join(max(held.until - time.monotonic(), 0))
    return not held.thread.is_alive()


def _started(device: CudaDevice) -> threading.Thread:
    thread = threading.Thread(
        target=_synchronize, args=(device,), name="tileprof waits", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends
        _synchronize(device)
    return thread


def _synchronize(device: CudaDevice) -> None:
    ident = threading.get_ident()
    hooks.own_threads.add(ident)
    try:
        # A failure shows when what kernels wrote is read.
        with suppress(DriverFailure), hooks.unrecorded(), device.current():
            device.driver.call("cuCtxSynchronize")
    finally:
        # The next thread with this number is the program's.
        hooks.own_threads.discard(ident)
