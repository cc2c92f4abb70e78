"""Part of a kernel's time that goes with tiles that are outside of their tensors."""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_turns import left_in_turns, takes_turns
from tileprof.analyzer.rules.numbers.blocks import (
    WASTED_LANES_GUARDED,
    WASTED_LANES_MORE,
    WASTED_LANES_SURE,
)


def saved_outside(case: KernelCase, outside: float, share: float, multiplies: bool) -> Saving:
    """Return the part of a kernel's time that is spent outside, as far as bytes, and work inside,
    leave it.

    `outside`: part of the tiles' work that is outside of tensors. `share`: part of the time that is
    spent on tiles. `multiplies`: whether that work is products, of which lanes outside issue none.
    """
    left, lost = max(0.0, 1 - case.roofs.copy_floor / case.time), outside * share
    turns = left_in_turns(case, case.sampled) if case.sampled and takes_turns(case) else None
    gone = None
    if case.sampled is not None and not multiplies:  # lanes outside issue what those inside do
        gone = outside * case.sampled.taken(case.sampled.rows())
    work = turns or reach.left(case, gone) or Saving(0, 1, 1)
    # What is outside waits for no memory, so it takes less time than what is inside.
    mid = min(lost * (1 if multiplies else WASTED_LANES_GUARDED), left, work.mid)
    high = min(lost + WASTED_LANES_MORE * (1 - lost), left, work.high)
    return Saving(WASTED_LANES_SURE * mid, mid, max(mid, high))
