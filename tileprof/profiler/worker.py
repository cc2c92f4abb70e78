"""The thread that looks and writes while the program runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import sub

from tileprof.native.array_memory import arrays_in_pages

PERIOD_S = 0.005
"""Mean time between two looks, in seconds, at first."""
SLOWEST = 4
"""Largest factor by which samples become rarer as their number grows. Each takes the GIL from the
program for 0.1 ms, and the first thousand give shares to a percent or two."""
SHARE = 0.01
"""Largest share of the program's processor time for ticks after the first thousand. At fixed times
of the clock, a busy machine makes them dear: where a program got a ninth of a processor, they took
a fifth as much processor time as the program itself."""
LONGEST_S = 0.2
"""Longest wait in seconds for the sake of `SHARE`. Without it, a program that only waits, and uses
no processor, would not be sampled at all."""
STOP_S = 2.0
"""Seconds that `stop` waits for a tick under way. The tick may wait for a lock that the caller of
`stop` holds, or for a disk that hangs: then it ends on its own, some time later."""
_MANY = 1000
_FIRST_S = 0.001
_SELDOM_S = 0.1
"""Seconds between ticks if there is nothing to sample, only files to write."""
PROMPT_S = 0.0002
"""Switch interval of the interpreter while the helping thread sleeps beside one running thread. A
shorter one would wake it more often while the program is in C code that keeps the GIL."""


def _times() -> tuple[float, float, float]:
    """Return the processor time of this thread and of the process, and the time, in seconds."""
    return time.thread_time(), time.process_time(), time.monotonic()


@contextmanager
def prompt_switches(wanted: bool) -> Iterator[None]:
    """Let a thread that wakes in this block have the GIL soon.

    A thread that wants the GIL waits for the switch interval, 5 ms, or until the running thread
    gives it away by itself, in order to sleep, read or compute in C. So Python code that runs for
    less than that between two such calls would never be seen. An interval that the program sets
    meanwhile stays.
    """
    before = sys.getswitchinterval()
    if not wanted or before <= PROMPT_S:
        yield
        return
    sys.setswitchinterval(PROMPT_S)
    ours = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == ours:
            sys.setswitchinterval(before)


def wait_for_share(own_s: float, process_s: float, elapsed_s: float) -> float:
    """Return the wait in seconds after which the next tick keeps to `SHARE`.

    It goes by what was used since the tick before: processor time of this thread and of the whole
    process, and time of the clock.
    """
    took, allowed = own_s * elapsed_s, SHARE * max(process_s - own_s, 0)
    return took / allowed if took < allowed * LONGEST_S else LONGEST_S


class Worker(threading.Thread):
    """Calls `tick` again and again until it is stopped; a daemon, so it never holds up an exit."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__(name="tileprof", daemon=True)
        self._tick = tick
        self._often = self._over = self._begun = False
        self._looks = 0
        self.prompt = False
        """Whether to be given the GIL soon after waking. It is not asked of a program with several
        running threads, whose own turns would become shorter, too."""
        # Not an Event: the handler of a signal may wake while the code that it interrupts does.
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def run(self) -> None:
        """Tick, at times that keep no step with anything periodic in the program."""
        arrays_in_pages()
        seed = 1
        due = time.monotonic() + _FIRST_S
        before = _times()
        while not self._over:
            with prompt_switches(self.prompt and self._often):
                self._asleep.acquire(timeout=max(due - time.monotonic(), 0))
            seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
            chance = seed / 0x80000000
            if self._begun:
                # Anywhere in what it looks at from now on: that may be over soon.
                self._begun = False
                due = time.monotonic() + PERIOD_S * chance
            elif time.monotonic() >= due and not self._over:
                self._tick()
                self._looks += self._often
                period = PERIOD_S * min(SLOWEST, 1 + self._looks / _MANY)
                wait = period * (0.5 + chance) if self._often else _SELDOM_S
                now = _times()
                if self._looks > _MANY:
                    wait = max(wait, wait_for_share(*map(sub, now, before)) * (0.5 + chance))
                before = now
                due = time.monotonic() + wait

    def pace(self, often: bool) -> None:
        """Tick often, or now and then for the files only."""
        if often != self._often:
            self._often = self._begun = often
            if often:
                self._wake()

    def stop(self) -> None:
        """Ask it to end, and wait until a tick under way is over, for `STOP_S` at most."""
        self._over = True
        self._wake()
        if threading.current_thread() is not self and self.is_alive():
            self.join(STOP_S)

    def _wake(self) -> None:
        # It is awake already where the lock is free.
        with suppress(RuntimeError):
            self._asleep.release()
