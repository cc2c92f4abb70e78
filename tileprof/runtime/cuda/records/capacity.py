"""Room for the records of one device: an arena of a size, and who may write how much into it.

In: how many records a warp may keep, and the memory for all.  Out: an arena, or why there is none;
the slots that are ready, whose room is then free again.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import addressof, c_uint8

import numpy as np
from numpy.typing import NDArray

from tileprof.instrument import slots
from tileprof.instrument.slots import Slots
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import (
    DEVICE_MEMORY,
    HOST_MEMORY,
    HOST_PORTABLE_MAPPED,
    OUT_OF_MEMORY,
    STREAM_NON_BLOCKING,
    Copy2D,
    DriverFailure,
)
from tileprof.runtime.cuda.records.budget import Budget
from tileprof.runtime.record_options import LEAST_SLOTS

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


_JOINED = 64
"""Parts that are made one, where they have few records: most warps have some."""
_JOINED_RECORDS = 1 << 12
"""Number of records from which parts are not few."""
_AT_ONCE = 1 << 18
"""Bytes of slots that are copied at once, and so at most of a part that is decoded at once."""
_THINNED = 1024
"""Counts behind the slots, for kernels in graphs; more kernels than that share some."""


class _Joined:
    """Parts of slots, of which small ones that follow each other are one."""

    def __init__(self) -> None:
        self._parts: list[Slots] = []
        self._small: list[Slots] = []
        self._records = 0
        """Number of records of the small ones."""

    def add(self, part: Slots) -> None:
        """Add the next part."""
        self._small.append(part)
        self._records += len(part.records)
        if len(self._small) >= _JOINED or self._records >= _JOINED_RECORDS:
            self._join()

    def all(self) -> list[Slots]:
        """Return all of them, in order."""
        self._join()
        return self._parts

    def _join(self) -> None:
        if self._small:
            whole = self._small[0] if len(self._small) == 1 else Slots.join(self._small)
            self._parts.append(whole)
            self._small, self._records = [], 0


class DeviceArena:
    """Memory of a GPU for records of warps, laid out as `instrument/slots.py` says.

    All copies are on a stream of their own, for which no kernel waits; nothing here waits for a
    kernel. DriverFailure wherever the driver does not do its work.
    """

    def __init__(self, device: CudaDevice, count: int, capacity: int) -> None:
        self.device, self.slots, self.capacity = device, count, capacity
        self._row = capacity * slots.RECORD.itemsize
        self._at_once = min(max(_AT_ONCE // self._row, 1), count)
        driver = device.driver
        with device.current(), driver.beside_captures():
            self._stream = driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING)
            head = slots.new_head(count, capacity)
            size = slots.arena_bytes(count, capacity)
            whole = size + 8 * _THINNED
            held = driver.pointer("cuMemAllocAsync", whole + self._row, self._stream)
            self.address = -(-held // self._row) * self._row
            self._thinning = self.address + size
            try:
                driver.call("cuMemsetD8Async", self.address, 0, whole, self._stream)
                driver.call("cuMemcpyHtoDAsync_v2", self.address, head, len(head), self._stream)
                # Now, for a launch waits for the device's own allocations and not again later.
                self._heads = self._pinned(slots.heads_bytes(count))
                self._rows = self._pinned(self._at_once * self._row)
                driver.call("cuStreamSynchronize", self._stream)
            except DriverFailure:
                with suppress(DriverFailure):
                    driver.call("cuMemFreeAsync", held, self._stream)
                raise
        self._refused = 0

    def thinning(self, tag: int) -> int:
        """Return the address of the number of blocks that asked whether they record.

        For captured tags, of whose replays only some blocks record.
        """
        return self._thinning + 8 * (tag % _THINNED)

    def take(self) -> tuple[list[slots.Slots], int]:
        """Return the slots that are ready, in the order of their claims, which are free again
        afterwards; and how many claims were refused since the last time."""
        with self.device.current(), self.device.driver.beside_captures():
            arena = self._read()
            tickets, taken = arena.tickets(), _Joined()
            for at in range(tickets.start, tickets.stop, self._at_once):
                some = range(at, min(at + self._at_once, tickets.stop))
                taken.add(self._collect(arena, some))
                self._release(some.stop)
        refused, self._refused = arena.lost - self._refused, arena.lost
        return taken.all(), refused

    def _read(self) -> slots.Arena:
        driver, size = self.device.driver, len(self._heads)
        place = self._heads.ctypes.data
        driver.call("cuMemcpyDtoHAsync_v2", place, self.address, size, self._stream)
        driver.call("cuStreamSynchronize", self._stream)
        return slots.read(self._heads)

    def _pinned(self, size: int) -> NDArray[np.uint8]:
        """Memory of the host that is copied to without a detour."""
        place = self.device.driver.pointer("cuMemHostAlloc", size, HOST_PORTABLE_MAPPED)
        return np.ctypeslib.as_array((c_uint8 * size).from_address(place))

    def _collect(self, arena: slots.Arena, tickets: range) -> slots.Slots:
        """Return the slots of these tickets; of each only as much as the fullest has."""
        places = np.arange(tickets.start, tickets.stop) % self.slots
        most = int(arena.heads["kept"][places].max(initial=0))
        width = min(most, self.capacity) * slots.RECORD.itemsize
        parts, begin = [], 0
        for offset, size in arena.spans(tickets):
            part = self._rows[begin : begin + size]
            if width:
                self._copy_rows(self.address + offset, part, width)
            parts.append(part)
            begin += size
        self.device.driver.call("cuStreamSynchronize", self._stream)
        return arena.collect(tickets, parts)

    def _copy_rows(self, source: int, target: NDArray[np.uint8], width: int) -> None:
        copy = Copy2D(
            source_type=DEVICE_MEMORY, source_device=source, source_pitch=self._row,
            target_type=HOST_MEMORY, target_host=target.ctypes.data, target_pitch=self._row,
            width=width, height=len(target) // self._row,
        )  # fmt: skip
        self.device.driver.call("cuMemcpy2DAsync_v2", addressof(copy), self._stream)

    def _release(self, ticket: int) -> None:
        """Notify warps that all slots before a ticket are free."""
        value = ctypes.c_uint64(ticket)
        place = self.address + slots.RELEASED_AT
        self.device.driver.call("cuMemcpyHtoDAsync_v2", place, addressof(value), 8, self._stream)
        self.device.driver.call("cuStreamSynchronize", self._stream)
