"""Steps of a program in a process that is timed: it stops between two of them and waits for orders.

In: ends of steps, from the program (`tileprof.step`), from PyTorch's optimizers, or from the calls
of one function.  Out: times of so many steps as were asked for, without those around them. A device
has nothing left to do when a time begins and when it ends.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from tileprof.profiler.frameworks import optimizers
from tileprof.profiler.session.steps import listen

_LAST = 5
"""Steps before the first timed one whose median is the estimate of a step's time."""


class Enough(SystemExit):
    """Ends the program at the end of a step; no `except Exception` of the program stops it."""


class Channel(Protocol):
    """The other side."""

    def say(self, message: dict[str, Any]) -> None:
        """Send a message."""

    def hear(self) -> dict[str, Any]:
        """Wait for the next order."""


class Stepping:
    """Counts the steps of this process and stops where it is asked to."""

    def __init__(
        self,
        channel: Channel,
        untimed: int,
        ended: Callable[[int], None] = lambda count: None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.count = 0
        """Steps that have ended."""
        self._channel, self._untimed, self._ended, self._clock = channel, untimed, ended, clock
        self._process = os.getpid()
        self._by_hand = False
        self._begin_at = self._end_at = 0
        """Steps after which a time begins and ends."""
        self._began = 0
        self._ends: list[int] = []

    def attach(self) -> None:
        """Count steps that the program marks, or those of optimizers where it marks none."""
        listen(self)
        optimizers.attach(lambda: self.mark(by_hand=False))

    def of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; each of its calls is a step, except those within another one."""
        depth = 0

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                depth -= 1
                if not depth and sys.exc_info()[0] is None:
                    self.end()

        return counted

    def mark(self, by_hand: bool) -> None:
        """End a step; once the program marks steps itself, those of optimizers count no more."""
        self._by_hand |= by_hand
        if by_hand == self._by_hand:
            self.end()

    def end(self) -> None:
        """End a step and, where a time ends too, wait for the next order."""
        if os.getpid() != self._process:
            return  # a worker that was forked
        self.count += 1
        self._ended(self.count)
        if self.count < self._untimed:
            self._ends = [*self._ends[-_LAST:], self._clock()]
        elif self.count == self._untimed:
            self._ends.append(self._clock())
            wait_for_devices()
            self._ask({"at": "ready", "step_ns": self._estimate()})
        elif self.count == self._begin_at:
            self._begin()
        elif self.count == self._end_at:
            wait_for_devices()
            took = self._clock() - self._began
            self._ask({"at": "timed", "ns": took, "steps": self._end_at - self._begin_at})

    def _estimate(self) -> float:
        """Return about how long a step takes, in ns; 0 where a single one was done."""
        each = [after - before for before, after in zip(self._ends, self._ends[1:])]
        return statistics.median(each) if each else 0.0

    def _ask(self, message: dict[str, Any]) -> None:
        self._channel.say(message)
        order = self._channel.hear()
        if order.get("end"):
            raise Enough(0)
        self._begin_at = self.count + int(order["lead"])
        self._end_at = self._begin_at + int(order["steps"])
        if self._begin_at == self.count:
            self._begin()

    def _begin(self) -> None:
        wait_for_devices()
        self._began = self._clock()


def wait_for_devices() -> None:
    """Return when the devices that PyTorch uses have nothing left to do."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
