"""Iterations of the program's own loops as steps, where it marks none and trains nothing.

In: calls at the beginning of each iteration, which `hooks.sources` writes into loops.  Out: how
often each loop went round and for how long, or the steps of one of them, with the arrays that its
function holds by then as their results.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from tileprof.trying.orders import Loop


class Loops:
    """Counts the iterations of all loops that the main thread goes through."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], list[int]] = {}
        """Iterations of each place, and the times at which the first and the latest began, ns."""
        self._thread = threading.get_ident()

    def begun(self, file: str, line: int) -> None:
        """Count the beginning of an iteration."""
        if threading.get_ident() != self._thread:
            return
        now = time.perf_counter_ns()
        held = self._seen.setdefault((file, line), [0, now, now])
        held[0] += 1
        held[2] = now

    def counted(self) -> list[tuple[str, int, int, int]]:
        """Return file, line, iterations, and ns from the first to the last of them, by loop."""
        if "jax" in sys.modules:  # What it has launched is not waited for when a step is timed.
            return []
        return [
            (file, line, count, last - first)
            for (file, line), (count, first, last) in self._seen.items()
        ]


def stepping_at(
    loop: Loop, keep: Callable[[FrameType], None], end: Callable[[], None]
) -> Callable[[str, int], None]:
    """Return what is called at the beginning of iterations: the iteration before it is a step.

    `keep` gets the frame of the loop's function, and then `end` ends the step.
    """
    thread, is_first = threading.get_ident(), True

    def begun(file: str, line: int) -> None:
        nonlocal is_first
        if (file, line) != (loop.file, loop.line) or threading.get_ident() != thread:
            return
        if not is_first:
            keep(sys._getframe(1))
            end()
        is_first = False

    return begun
