"""Share of a GPU that a launch fills over its time.

In: the slots of one launch.  Out: a fact; numbers with a sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof.instrument.slots import Slots

from .blocks import blocks_of

__all__ = ["Tail", "tail"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tail:
    """Share of the GPU that a launch fills over its time, from blocks that were recorded."""

    recorded: int
    blocks: int
    span_ns: float
    """Time from the first begin to the last end, in ns."""
    busy: float
    """Blocks that ran at a time on average, over the most that did; 0 to 1."""
    tail: float
    """Share of the span after which some of the most were never at work again."""
    waves: float
    """Blocks of the launch over those that fit at a time; NaN where that is not known."""

    @property
    def filled(self) -> float:
        """Share of the GPU that whole waves of equal blocks fill: waves over waves rounded up."""
        return self.waves / math.ceil(self.waves)

    @property
    def sentence(self) -> str:
        """The fact in words."""
        of = f"{self.recorded:,} of {self.blocks:,} blocks"
        said = f"By {of}, multiprocessors run empty during the last {self.tail:.1%} of a launch"
        if math.isnan(self.waves):
            return f"{said}."
        return f"{said}; {self.waves:.2f} waves of blocks fill {self.filled:.1%} of whole ones."


def tail(slots: Slots, blocks: int, resident: int | None = None) -> Tail | None:
    """Return the tail of one launch of `blocks` blocks; None where nothing was recorded.

    `resident`: blocks that the GPU holds at a time.  Where only some blocks are recorded, busy and
    tail are those of the few, which is coarse: a step of one block in `recorded`.
    """
    if not len(slots):
        return None
    number = blocks_of(slots.heads)
    begin = np.full(int(number.max()) + 1, np.iinfo(np.int64).max)
    end = np.zeros(len(begin), np.int64)
    np.minimum.at(begin, number, slots.heads["begin_ns"].astype(np.int64))
    np.maximum.at(end, number, slots.heads["end_ns"].astype(np.int64))
    span = int(end.max() - begin.min())
    if not span:
        return None
    at, running = _running(begin, end)
    most = int(running.max())
    last = at[np.flatnonzero(running == most)[-1] + 1]
    busy = float((end - begin).sum()) / (most * span)
    waves = blocks / resident if resident else float("nan")
    return Tail(len(begin), blocks, span, busy, float(end.max() - last) / span, waves)


def _running(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return times at which blocks begin or end, and how many run from each on."""
    times, place = np.unique(np.concatenate([begin, end]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, place[: len(begin)], 1)
    np.add.at(change, place[len(begin) :], -1)
    return times, np.cumsum(change)
