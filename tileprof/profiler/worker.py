"""The thread that looks and writes while the program runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tileprof.profiler.termination import Termination

PERIOD_S = 0.005
"""Mean time between two looks, in seconds, at first."""
SLOWEST = 4
"""By how much looks become rarer, the more there are: each takes the GIL from the program for
0.1 ms, and the first thousand have told the shares to a percent or two."""
_MANY = 1000
_FIRST_S = 0.001
_SELDOM_S = 0.1
"""Where there is nothing to look at, only files to write."""


class Worker(threading.Thread):
    """Calls `tick` again and again until it is stopped; a daemon, so it never holds up an exit."""

    def __init__(self, tick: Callable[[], None], termination: Termination | None) -> None:
        super().__init__(name="tileprof", daemon=True)
        self._tick = tick
        self._termination = termination
        self._often = self._over = self._begun = False
        self._looks = 0
        self._woken = threading.Event()

    def run(self) -> None:
        """Tick, at times that keep no step with anything periodic in the program."""
        seed = 1
        due = time.monotonic() + _FIRST_S
        while not self._over:
            self._rest(due - time.monotonic())
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            chance = seed / 0x80000000
            if self._begun:
                # Anywhere in what it looks at from now on: that may be over soon.
                self._begun = False
                due = time.monotonic() + PERIOD_S * chance
            elif time.monotonic() >= due:
                self._tick()
                self._looks += self._often
                period = PERIOD_S * min(SLOWEST, 1 + self._looks / _MANY)
                wait = period * (0.5 + chance) if self._often else _SELDOM_S
                due = time.monotonic() + wait

    def pace(self, often: bool) -> None:
        """Tick often, or now and then for the files only."""
        if often != self._often:
            self._often = self._begun = often
            if often:
                self._wake()

    def stop(self) -> None:
        """Ask it to end, and wait until a tick under way is over."""
        self._over = True
        self._wake()
        if threading.current_thread() is not self and self.is_alive():
            self.join()

    def _wake(self) -> None:
        if self._termination is None:
            self._woken.set()
        else:
            self._termination.wake()

    def _rest(self, seconds: float) -> None:
        """Wait until it is woken; meanwhile a SIGTERM is seen to."""
        if self._termination is None:
            self._woken.wait(seconds)
            self._woken.clear()
        else:
            self._termination.wait(seconds)
