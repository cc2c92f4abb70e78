"""An arena of records for kernels that run on the emulator."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tileprof.instrument.slots import Slots, arena_bytes, new_head, read, recording

__all__ = ["Recorder"]


class Recorder:
    """Memory for the records of a launch."""

    def __init__(self, slots: int = 64, capacity: int = 256) -> None:
        self.capacity = capacity
        # An arena lies at a multiple of its slots' records.
        size, whole = 8 * capacity, arena_bytes(slots, capacity)
        memory = np.zeros(whole + size, np.uint8)
        self.raw = memory[-memory.ctypes.data % size :][:whole]
        head = new_head(slots, capacity)
        self.raw[: len(head)] = np.frombuffer(head, np.uint8)

    def argument(self, **given: Any) -> bytes:
        """What a launch is given; names are those of `recording`."""
        return recording(self.raw.ctypes.data, self.capacity, **given)

    def slots(self) -> Slots:
        """What its warps recorded."""
        return read(self.raw).slots()

    def states(self, slots: Slots) -> list[list[int]]:
        """The states of each warp, one after the other."""
        numbers = slots.records["state"].tolist()
        return [numbers[a:b] for a, b in pairwise(slots.starts)]
