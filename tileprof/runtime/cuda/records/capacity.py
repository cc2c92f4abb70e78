"""Room for the records of one device: an arena of a size, and who may write how much into it.

In: how many records a warp may keep, and the memory for all.  Out: an arena, or why there is none;
the slots that are ready, whose room is then free again.
"""

from __future__ import annotations

import ctypes

import numpy as np

from tileprof.instrument.slots import Slots
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import OUT_OF_MEMORY, DriverFailure
from tileprof.runtime.record_options import LEAST_SLOTS

from .arena import DeviceArena
from .budget import Budget

__all__ = ["MEMORY", "Room", "memory_of"]

MEMORY = 512 << 20
"""Bytes: some 28 launches of 8 blocks with 9 warps each, of 32,768 records a warp."""
_SHARE = 256
"""One part in this many of a device is taken at most, unless more is asked for."""
_BYTES_PER_S = 64 << 20
"""Bytes of records per second that the host reads and decodes in the long run: a sixth of one
core's time."""
_LEAST_FILL = 1 / 64
"""Cost of reading an almost empty slot, as a share of a full one."""


def memory_of(device: CudaDevice) -> int:
    """Bytes for records where none were asked for."""
    made = ctypes.c_size_t()
    driver = device.driver
    handle = driver.number("cuDeviceGet", device.number)
    driver.call("cuDeviceTotalMem_v2", ctypes.addressof(made), handle)
    return min(MEMORY, made.value // _SHARE)


class Room:
    """An arena and its budget; neither is ever given up, for graphs may hold its address."""

    def __init__(self, device: CudaDevice, capacity: int, memory: int | None) -> None:
        self.arena: DeviceArena | None = None
        self.failure = ""
        """Why there is no arena."""
        self.slots = 0
        try:
            with hooks.unrecorded():
                wanted = (memory or memory_of(device)) // (8 * capacity)
                self._allocate(device, max(wanted, LEAST_SLOTS), capacity)
        except DriverFailure as failure:
            self.failure = failure.message
        self.budget = Budget(self.slots, _BYTES_PER_S / (8 * capacity))

    def _allocate(self, device: CudaDevice, wanted: int, capacity: int) -> None:
        """An arena of at most so many slots, a power of two; less where memory is short."""
        slots = 1 << wanted.bit_length() - 1
        while self.arena is None:
            try:
                self.arena, self.slots = DeviceArena(device, slots, capacity), slots
            except DriverFailure as failure:
                if failure.code != OUT_OF_MEMORY or slots <= LEAST_SLOTS:
                    raise
                slots //= 2

    @property
    def bytes(self) -> int:
        """Return the bytes of records."""
        return 0 if self.arena is None else 8 * self.slots * self.arena.capacity

    def take(self) -> tuple[list[Slots], int]:
        """Return the slots that are ready, and how many claims were refused since the last time;
        TileprofError where they cannot be read."""
        if self.arena is None:
            return [], 0
        with hooks.unrecorded():
            taken, refused = self.arena.take()
        used = sum(self._used(each) for each in taken)
        count = sum(map(len, taken))
        self.budget.give_back(count + refused, count - used)
        return taken, refused

    def _used(self, slots: Slots) -> float:
        """Return the cost of reading these slots, in full slots."""
        assert self.arena is not None
        fill = slots.heads["kept"] / self.arena.capacity
        return float(np.maximum(fill, _LEAST_FILL).sum())
