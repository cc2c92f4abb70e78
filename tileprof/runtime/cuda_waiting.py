"""Waiting for a device at the end of a recording, but not for ever: a kernel may never end."""

from __future__ import annotations

import threading
from contextlib import suppress

from . import hooks
from .cuda_device import CudaDevice
from .cuda_driver import DriverFailure

__all__ = ["PATIENCE_S", "wait_for"]

PATIENCE_S = 10.0
"""How long the end of a recording waits for a device."""


def wait_for(device: CudaDevice, seconds: float) -> bool:
    """Whether the device has nothing to do any more, within so many seconds."""
    waiting = threading.Thread(
        target=_synchronize, args=(device,), name="tileprof waits", daemon=True
    )
    try:
        waiting.start()
    except RuntimeError:  # the interpreter ends
        _synchronize(device)
    else:
        waiting.join(seconds)
    return not waiting.is_alive()


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
