"""How much shorter a kernel becomes: from the share of its time that goes away to a gain.

In: samples that a change takes away, or hides, of all samples of a kernel.  Out: shares of its
time, and gains. Formulas of elimination and of hiding are those of GPA (Zhou et al., CGO 2021),
section 5; Amdahl's law joins a kernel to its program.

A share of samples is as good as their number: N samples of one multiprocessor are not N independent
ones, so ranges are those of fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.numbers.reports import (
    ESTIMATES_ALL_FROM,
    ESTIMATES_FOLD,
    ESTIMATES_INDEPENDENT,
    ESTIMATES_SPREAD,
    ESTIMATES_UNSEEN,
)
from tileprof.analyzer.numbers.shared import LONGEST_SAVING

Weights: TypeAlias = npt.NDArray[np.float64]
"""By row of a kernel's samples, how many of them."""


@dataclass(frozen=True, eq=False)
class Saving:
    """The share of a kernel's time that a change takes away: a range, and the likeliest."""

    low: float
    mid: float
    high: float
    rows: Weights | None = None
    """By row of the kernel's samples, how many go; None where that is not told by samples."""
    samples: int = 0
    """Of program counters, that it is made of."""
    gaps: float = 0.0
    """Part of `mid` in which devices are idle now; the rest is time of their kernels and copies."""

    def __post_init__(self) -> None:
        assert 0 <= self.low <= self.mid <= self.high <= 1, self
        assert 0 <= self.gaps <= self.mid, self


def eliminated(taken: Weights, whole: float, part: float = 1.0, sure: float = 0.5) -> Saving:
    """Samples that go away: the work, or its wait, is not there any more.

    Of the samples `taken`, by row, `part` goes likely, all of them at most, `sure` of that part at
    least.
    """
    lost = float(taken.sum())
    if whole <= 0:
        return Saving(0, 0, 0)
    share = min(lost / whole, LONGEST_SAVING)
    error = 2 * math.sqrt(share * (1 - share) / max(ESTIMATES_INDEPENDENT * whole, 1))
    low, mid = max(0.0, sure * part * share - error), part * share
    return Saving(low, mid, min(max(mid, share + error), LONGEST_SAVING), part * taken, int(lost))


def hidden(waiting: Weights, issued: float, whole: float, sure: float = 0.5) -> Saving:
    """Waiting that other work of the same loop can cover: no more than there is of that work.

    `waiting` are samples, by row, at which no warp issued, `issued` those in which the loop's warps
    did.
    """
    lost = float(waiting.sum())
    return eliminated(waiting, whole, part=min(1.0, issued / lost) if lost else 0.0, sure=sure)


def drawn(saving: Saving, left: Saving) -> Saving:
    """What a change saves of the time that is left to gain.

    Waits at other instructions are often a defect's doing as well: what stands in a queue waits
    there for all that is in front of it. So of what is left a defect takes more than its samples'
    part x of it: x to the power of `ESTIMATES_SPREAD`. Its samples alone are the least; the most is
    all that is left, if x is a tenth or more.
    """
    part = min(1.0, saving.mid / left.mid) if left.mid else 1.0
    most = min(1.0, saving.high / left.high / ESTIMATES_ALL_FROM) if left.high else 0.0
    mid = min(left.mid * part**ESTIMATES_SPREAD, ESTIMATES_FOLD * saving.mid)
    high = left.high * most
    low = min(saving.low, left.low, mid)
    return Saving(low, mid, max(mid, high), saving.rows, saving.samples)


def gain_of(saving: Saving) -> Gain:
    """Time before by time after."""
    low, mid, high = (
        1 / (1 - min(share, LONGEST_SAVING)) for share in (saving.low, saving.mid, saving.high)
    )
    return Gain(low, mid, high)


def capped(gain: Gain, most: float) -> Gain:
    """The gain, where nothing is faster than `most` times as fast; `most` is below 1 where a
    measured roof is passed already."""
    most = max(most, 1.0)
    return Gain(*(min(each, most) for each in (gain.low, gain.mid, gain.high)))


def likely_capped(gain: Gain, likely: float) -> Gain:
    """Return the gain, likely no more than `likely` times as fast, at most as before."""
    mid = max(1.0, min(gain.mid, likely))
    return Gain(min(gain.low, mid), mid, gain.high)


def widened(gain: Gain) -> Gain:
    """The gain with the highest one that kernels reach which no rule was made on."""
    return Gain(gain.low, gain.mid, 1 + ESTIMATES_UNSEEN * (gain.high - 1))


def of_program(gain: Gain, share: float) -> Gain:
    """What a kernel's gain is for a program of whose time it has a share (Amdahl)."""
    return Gain(*(1 / (1 - share * (1 - 1 / each)) for each in (gain.low, gain.mid, gain.high)))


def united(
    savings: list[Saving], whole: float, draw: Callable[[Saving], Saving] = lambda saving: saving
) -> Saving:
    """All changes together: each sample goes once, by the change that takes most of it.

    Savings that are not told by samples multiply what is left, as if independent. `draw` says what
    a saving by samples comes to in the end.
    """
    told = [(each, each.rows) for each in savings if each.rows is not None]
    left = Saving(0, 0, 0)
    if told:
        sure = min(each.low / each.mid if each.mid else 0.0 for each, _ in told)
        left = draw(eliminated(np.max([rows for _, rows in told], axis=0), whole, sure=sure))
    parts = [left, *(each for each in savings if each.rows is None)]
    shares = [[getattr(each, name) for each in parts] for name in ("low", "mid", "high")]
    low, mid, high = (1 - math.prod(1 - share for share in each) for each in shares)
    return Saving(low, mid, max(mid, high), samples=left.samples)
