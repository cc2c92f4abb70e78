"""The thread that looks and writes while the program runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tileprof.profiler.termination import Termination

PERIOD_S = 0.005
"""Mean time between two looks, in seconds."""
_FIRST_S = 0.001
_SELDOM_S = 0.1
"""Where there is nothing to look at, only files to write."""


class Worker(threading.Thread):
    """Calls `tick` again and again until it is stopped; a daemon, so it never holds up an exit."""

    def __init__(
        self, tick: Callable[[], None], often: bool, termination: Termination | None
    ) -> None:
        super().__init__(name="tileprof", daemon=True)
        self.often = often
        self._tick = tick
        self._termination = termination
        self._over = threading.Event()

    def run(self) -> None:
        """Tick, at times that keep no step with anything periodic in the program."""
        wait, seed = _FIRST_S, 1
        while not self._rest(wait if self.often else _SELDOM_S):
            self._tick()
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            wait = PERIOD_S * (0.5 + seed / 0x80000000)

    def stop(self) -> None:
        """Ask it to end, and wait until a tick under way is over."""
        self._over.set()
        if self._termination is not None:
            self._termination.wake()
        if threading.current_thread() is not self and self.is_alive():
            self.join()

    def _rest(self, seconds: float) -> bool:
        """Wait, and tell whether it is over; meanwhile a SIGTERM is seen to."""
        if self._termination is None:
            return self._over.wait(seconds)
        if not self._over.is_set():
            self._termination.wait(seconds)
        return self._over.is_set()
