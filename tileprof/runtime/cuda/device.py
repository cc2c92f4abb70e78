"""A GPU: its context, its architecture, and the target that kernels are compiled for on it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tileprof.compiler.cuda.target import Target, find_target
from tileprof.errors import ArgumentError, MissingDependencyError
from tileprof.once import once

from .check_notes import Notes
from .driver import (
    CLOCK_RATE,
    COMPUTE_MAJOR,
    COMPUTE_MINOR,
    MULTIPROCESSORS,
    Driver,
    driver_start,
    load_driver,
)
from .held_arrays import HeldArrays
from .tile_counters import TileCounters

__all__ = ["CudaDevice", "find_device"]

_TARGET = "TILEPROF_CUDA_TARGET"


class CudaDevice:
    """One GPU and its primary context, which PyTorch and CuPy use too."""

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver = driver
        self.number = number
        handle = driver.number("cuDeviceGet", number)
        shown = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", shown, 256, handle)
        self.name = shown.value.decode()
        major, minor, self.sms, self.clock_khz = (
            driver.number("cuDeviceGetAttribute", what, handle)
            for what in (COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS, CLOCK_RATE)
        )
        self.capability = (major, minor)
        with driver_start:
            self.context = driver.pointer("cuDevicePrimaryCtxRetain", handle)
        self.counters = TileCounters(driver)
        self.held = HeldArrays(driver)
        self.notes = Notes(self)
        self._get_current = driver.function("cuCtxGetCurrent")
        self.target, self.from_ptx = _choose_target(self.capability)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the device's context the thread's while the body runs."""
        if self.is_current():
            yield
            return
        self.driver.call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            self.driver.pointer("cuCtxPopCurrent_v2")

    def is_current(self) -> bool:
        """Return whether the thread works in the device's context."""
        held = ctypes.c_void_p()
        self._get_current(ctypes.byref(held))
        return held.value == self.context


def _choose_target(capability: tuple[int, int]) -> tuple[Target, bool]:
    """Return the target for an architecture, and whether the driver has to compile its PTX."""
    major, minor = capability
    shown = f"{major}.{minor}"
    if (major, minor) < (8, 0):
        raise MissingDependencyError(
            f"kernels need a GPU of compute capability 8.0 or later, and this one has {shown}",
            hint="Pass host arrays, which run on `cpu`.",
        )
    name = os.environ.get(_TARGET) or ("sm_90a" if capability == (9, 0) else "sm_80")
    target = find_target(name)
    if name == "sm_90a" and capability != (9, 0):
        raise MissingDependencyError(
            f"{_TARGET} is sm_90a, which a GPU of compute capability {shown} cannot run",
            hint="Unset it, or set sm_80.",
        )
    # Machine code runs on its own major version; PTX of an older one runs on any later.
    return target, name == "sm_80" and major != 8


@once
def find_device(number: int) -> CudaDevice:
    """Device `number` as the driver counts; ArgumentError for one that is not there."""
    driver = load_driver()
    count = driver.number("cuDeviceGetCount")
    if number >= count:
        raise ArgumentError(
            f"there is no device `cuda:{number}`: the driver has {count}",
            hint="Devices count from 0; CUDA_VISIBLE_DEVICES may hide some.",
        )
    return CudaDevice(driver, number)
