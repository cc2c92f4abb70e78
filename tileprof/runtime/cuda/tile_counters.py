"""Counters of tiles for launches whose blocks take the next tile when they are free.

In: the stream of a launch.  Out: the address of 32 bits that are 0 when the launch starts and that
no launch beside it uses.

A launch leaves its counter at 0 (`prelude/tiles.cuh`), so nothing has to be cleared between two.
Launches on one stream run one after the other and share a counter; each stream has its own, by its
number, which the driver never gives twice (a handle may come back while its old work still runs).
A launch that is recorded into a graph has one for itself, for ever: a graph may be replayed at any
time, beside any other, but never beside itself.  So a graph and its clone, or two instances of one
graph, must not run at once, as they must not for the tensors that they write.
"""

from __future__ import annotations

import threading
from ctypes import byref, c_uint64

from .driver import STREAM_NON_BLOCKING, Driver

__all__ = ["TileCounters"]

_EACH = 32
"""Bytes from counter to counter: one sector of L2, which blocks of one launch alone write."""
_AT_ONCE = 1024
"""Counters that are allocated together."""


class TileCounters:
    """The counters of one device; what is allocated is kept."""

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
