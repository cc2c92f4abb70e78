"""Rounds of batches in which calls take turns, so that a change of the clock meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

BATCH_NS = 4_000_000
"""Time of a batch, in ns, for which calls are repeated: long beside the few µs of an event."""


def batch_sizes(times_ns: Sequence[float], most: int) -> list[int]:
    """Return how many calls make a batch, 1 to `most`, from the time of one call of each, in ns."""
    return [max(1, min(most, round(BATCH_NS / max(ns, 1e-3)))) for ns in times_ns]


def in_turns(batches: Sequence[Callable[[], T]]) -> Iterator[list[T]]:
    """Yield rounds without end: what one batch of each gives, in the order of `batches`.

    Every second round runs backwards. Otherwise a batch would always follow the same other one.
    """
    forwards = False
    while True:
        order = range(len(batches)) if forwards else reversed(range(len(batches)))
        taken = {at: batches[at]() for at in order}
        yield [taken[at] for at in range(len(batches))]
        forwards = not forwards
