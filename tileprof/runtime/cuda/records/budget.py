"""Budget of launches that may write records: as many as there is room and time for.

In: what launches want, what was read.  Out: yes or no.  A launch is refused where the arena has no
room for it, or where reading its records would take too much of the host; kernels that are launched
seldom are not crowded out by those that are launched often.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

WINDOW_S = 0.25
"""Kernels share the room of a time as long as this."""
_RESERVE = 8
"""One part in this many is for kernels that had nothing yet."""
_IDLE_S = 1.0
"""Seconds after the last launch from which missing records are given up."""


@dataclass(slots=True)
class Share:
    """Slots that launches under one tag have used."""

    total: int = 0
    window: int = -1
    used: int = 0
    """Slots used in that window."""


class Budget:
    """The slots of an arena, given to launches."""

    def __init__(self, slots: int, per_second: float) -> None:
        self._slots = slots
        self._per_second = per_second
        """Full slots that are read in the long run."""
        self.outstanding = 0
        """Given, and not read yet."""
        self._allowance = float(slots)
        self._refilled = self._last = time.monotonic()
        self._window = 0
        self._sharing = self._shared = 0
        """Tags that launch in this window, and in the one before."""
        self._lock = threading.RLock()

    @property
    def is_short(self) -> bool:
        """Whether less than half of the room is left."""
        return 2 * self.outstanding > self._slots

    def grants(self, share: Share, slots: int) -> bool:
        """Return whether a launch may have so many slots, which it then has."""
        now = time.monotonic()
        with self._lock:
            self._refill(now)
            if share.window != self._window:
                share.window, share.used = self._window, 0
                self._sharing += 1
            free = min(self._slots - self.outstanding, int(self._allowance))
            if share.total:
                free -= self._slots // _RESERVE
            part = self._slots // max(self._sharing, self._shared, 1)
            if slots > free or (share.used and share.used + slots > part):
                return False
            share.total += slots
            share.used += slots
            self.outstanding += slots
            self._allowance -= slots
            self._last = now
            return True

    def _refill(self, now: float) -> None:
        more = (now - self._refilled) * self._per_second
        self._allowance = min(self._allowance + more, float(self._slots))
        self._refilled = now
        window = int(now / WINDOW_S)
        if window != self._window:
            self._window = window
            self._shared, self._sharing = self._sharing, 0

    def give_back(self, slots: int, empty: float = 0) -> None:
        """Take back what was read, of which so much was `empty` and took no time; what warps never
        claimed comes back after a while."""
        with self._lock:
            self.outstanding = max(self.outstanding - slots, 0)
            self._allowance = min(self._allowance + empty, float(self._slots))
            if not slots and time.monotonic() - self._last > _IDLE_S:
                self.outstanding = 0


def one_in(blocks: int, chosen: int) -> int:
    """Return n such that measuring one of n blocks measures about `chosen` of all: a power of two,
    which a block can test by its number's bits."""
    return 1 << round(math.log2(max(blocks / chosen, 1)))
