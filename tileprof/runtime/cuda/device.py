"""A GPU: its context, its architecture, and the target that kernels are compiled for on it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING, Any

from tileprof.compiler.cuda.target import Target, find_target
from tileprof.errors import ArgumentError, MissingDependencyError
from tileprof.once import once
from tileprof.runtime.cuda.check_notes import Notes
from tileprof.runtime.cuda.driver import (
    CLOCK_RATE,
    COMPUTE_MAJOR,
    COMPUTE_MINOR,
    EVENT_WITHOUT_TIME,
    MULTIPROCESSORS,
    NOT_READY,
    STREAM_NON_BLOCKING,
    Driver,
    driver_start,
    load_driver,
)

if TYPE_CHECKING:
    from tileprof.compiler.cuda.source import CudaSource

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
        with driver_start():
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


def image_of(device: CudaDevice, source: CudaSource) -> bytes:
    """Return the machine code of a text for a device, or its PTX where the driver compiles that."""
    from tileprof.compiler.cuda.build import compile_cubin, compile_ptx
    from tileprof.compiler.cuda.controls import Controls

    if device.from_ptx:
        return compile_ptx(source, device.target, Controls()).rstrip("\0").encode() + b"\0"
    return compile_cubin(source, device.target, Controls()).bytes


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


class HeldArrays:
    """References to arrays of one device's launches.

    PyTorch and CuPy give freed memory to later work in the order of the stream that the launch
    is on, and freeing by the driver waits. Any other framework, whose arrays come through
    DLPack, may reuse memory on a stream of its own as soon as the last reference is gone.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._held: list[tuple[int, Sequence[Any]]] = []
        """An event after each launch, and its arrays."""
        self._lock = threading.Lock()

    def keep(self, arrays: Sequence[Any], stream: int) -> None:
        """Hold arrays until what is enqueued on the stream by now is over.

        Drops the arrays of earlier launches that are over; the device's context is the thread's.
        """
        event = self._driver.pointer("cuEventCreate", EVENT_WITHOUT_TIME)
        self._driver.call("cuEventRecord", event, stream)
        query = self._driver.function("cuEventQuery")
        with self._lock:
            codes = [query(each) for each, _ in self._held]
            # Any other code is a fault, after which nothing runs any more.
            over = [each for each, code in zip(self._held, codes) if code != NOT_READY]
            self._held = [each for each, code in zip(self._held, codes) if code == NOT_READY]
            self._held.append((event, arrays))
        for done, _ in over:
            self._driver.function("cuEventDestroy_v2")(done)


_EACH = 32
"""Bytes from counter to counter: one sector of L2, which blocks of one launch alone write."""
_AT_ONCE = 1024
"""Counters that are allocated together."""


class TileCounters:
    """The counters of one device; what is allocated is kept.

    In: the stream of a launch. Out: the address of 32 bits that are 0 when the launch starts
    and that no launch beside it uses.

    A launch leaves its counter at 0 (`prelude/tiles.cuh`), so nothing has to be cleared between
    two. Launches on one stream run one after the other and share a counter; each stream has its
    own, by its number, which the driver never gives twice (a handle may come back while its old
    work still runs). A launch that is recorded into a graph has one for itself, for ever: a
    graph may be replayed at any time, beside any other, but never beside itself. So a graph and
    its clone, or two instances of one graph, must not run at once, as they must not for the
    tensors that they write.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._of_stream: dict[int, int] = {}
        self._free = range(0)
        self._lock = threading.Lock()

    def address(self, stream: int) -> int:
        """Return the address of the next launch's counter on a stream; the thread's context is the
        device's."""
        driver = self.driver
        if driver.is_capturing(stream):
            with self._lock:
                return self._take()
        number = c_uint64()
        driver.call("cuStreamGetId", stream, byref(number))
        found = self._of_stream.get(number.value)
        if found is None:
            with self._lock:
                found = self._of_stream.get(number.value) or self._take()
                self._of_stream[number.value] = found
        return found

    def _take(self) -> int:
        """Return a counter that nobody has had."""
        if not self._free:
            self._free = self._allocated()
        address, self._free = self._free[0], self._free[1:]
        return address

    def _allocated(self) -> range:
        """Addresses of new counters, which are 0 when this returns."""
        driver, size = self.driver, _EACH * _AT_ONCE
        with driver.beside_captures():
            stream = driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING)
            start = driver.pointer("cuMemAllocAsync", size, stream)
            driver.call("cuMemsetD8Async", start, 0, size, stream)
            driver.call("cuStreamSynchronize", stream)
            driver.call("cuStreamDestroy_v2", stream)
        return range(start, start + size, _EACH)
