"""Slots that were copied from a GPU and wait to be decoded, in pages of their own.

In: the slots of each reading, some of which hold a single warp's few records.  Out: all of them, in
parts that are small enough to be decoded at once.

How many wait differs from second to second, with the program's threads: each of them as an object
with its arrays would take a kilobyte and more, in holes all over the heap.  So there is room for a
fixed number, which is resident from the first one on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.instrument.slots import RECORD, SLOT, Slots
from tileprof.pages import pages

MOST_SLOTS = 1 << 13
"""Slots that wait at most; their heads take 64 bytes each."""
MOST_RECORDS = 1 << 16
"""Records of 8 bytes that they have at most, all together."""


class Undecoded:
    """Room for slots that wait."""

    def __init__(self) -> None:
        self._heads = np.zeros(0, SLOT)
        self._records = np.zeros(0, RECORD)
        self._slots = self._used = 0
        """Number of slots that wait, and of records."""

    def __len__(self) -> int:
        return self._slots

    def fits(self, slots: Slots) -> bool:
        """Return whether there is room for these."""
        return (
            self._slots + len(slots) <= MOST_SLOTS
            and self._used + len(slots.records) <= MOST_RECORDS
        )

    def add(self, slots: Slots) -> None:
        """Copy slots that fit."""
        if not len(self._heads):
            self._heads = np.frombuffer(pages(MOST_SLOTS * SLOT.itemsize, resident=True), SLOT)
            held = pages(MOST_RECORDS * RECORD.itemsize, resident=True)
            self._records = np.frombuffer(held, RECORD)
        slot, record = self._slots, self._used
        self._slots, self._used = slot + len(slots), record + len(slots.records)
        self._heads[slot : self._slots] = slots.heads
        self._records[record : self._used] = slots.records

    def take(self, at_once: int) -> Iterator[Slots]:
        """Yield copies of what waits, in parts of at most so many records, or of one slot that has
        more; there is room again from the first one on."""
        heads, records = self._heads, self._records
        slots = Slots(heads[: self._slots], records[: self._used])
        # Whoever adds meanwhile, as a signal's handler may, has room of its own.
        self._heads, self._records = heads[:0], records[:0]
        self._slots = self._used = 0
        yield from parts_of(slots, at_once)
        if not len(self._heads):
            self._heads, self._records = heads, records


def parts_of(slots: Slots, at_once: int) -> Iterator[Slots]:
    """Yield copies of slots, in parts of at most so many records, or of one slot that has more."""
    starts = slots.starts
    first = 0
    while first < len(slots):
        most = int(np.searchsorted(starts, starts[first] + at_once, side="right")) - 1
        end = min(max(most, first + 1), len(slots))
        begin, stop = starts[first], starts[end]
        yield Slots(slots.heads[first:end].copy(), slots.records[begin:stop].copy())
        first = end
