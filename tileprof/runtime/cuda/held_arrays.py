"""Arrays that launches still work on although their callers may have dropped them.

In: arrays of one launch and its stream.  Out: references, dropped once the launch is over.

PyTorch and CuPy give freed memory to later work in the order of the stream that the launch is on,
and freeing by the driver waits.  Any other framework, whose arrays come through DLPack, may reuse
memory on a stream of its own as soon as the last reference is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .driver import EVENT_WITHOUT_TIME, NOT_READY, Driver


class HeldArrays:
    """References to arrays of one device's launches."""

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
