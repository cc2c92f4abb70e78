"""Samples that registers in local memory are guilty of.

In: a kernel's code.  Out: where it loads and stores local memory, and by row the samples at these,
of what waits for them, and of what else waits for a place in the queue that they fill.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.machine.code import ISSUED, KernelCode

__all__ = ["spill_places", "spill_samples"]

_QUEUED = ("LDL", "STL", "LDG", "STG", "LDGSTS", "ATOM", "ATOMG", "RED", "REDG", "LD", "ST")
"""Instructions that stand in the queue of global and local memory."""


def spill_places(code: KernelCode) -> list[int]:
    """Places of loads and stores of local memory."""
    return code.named("LDL", "STL")


def spill_samples(code: KernelCode) -> Weights:
    """By row."""
    spills = spill_places(code)
    queued = code.n(code.named(*_QUEUED), (ISSUED,))
    part = code.n(spills, (ISSUED,)) / queued if queued else 0.0
    throttled = part * code.taken(code.rows(reasons=("lg_throttle",)))
    own = np.maximum(code.taken(code.rows(spills)), code.waiting_for(spills))
    return np.maximum(own, throttled)
