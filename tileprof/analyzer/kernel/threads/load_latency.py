"""How long a warp waits for a load from memory, by samples.

In: a kernel's code with samples.  Out: cycles. A warp that issues is seen for one cycle at each
instruction that it comes by, and one that waits for as many cycles as it waits, so both counts of
an instruction tell its mean wait. Waits of several instructions are weighed by their samples.

Where that is far more than memory takes for a load alone, requests wait for one another on their
way: then memory, or what is before it, has as many under way as it takes.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.kernels import LOAD_LATENCY_LEAST

__all__ = ["load_latency"]

_ANSWER = "long_scoreboard"


def load_latency(code: KernelCode) -> float:
    """Return the mean wait in cycles; 0 where hardly a warp waits for memory."""
    count = len(code.instructions)
    waits, issued = (_by_instruction(code, reason, count) for reason in (_ANSWER, ISSUED))
    hot = waits >= max(LOAD_LATENCY_LEAST * code.whole, 1)
    if not hot.any():
        return 0.0
    each = waits[hot] / np.maximum(issued[hot], 1)
    return float((each * waits[hot]).sum() / waits[hot].sum())


def _by_instruction(code: KernelCode, reason: str, count: int) -> Weights:
    rows = code.rows(reasons=(reason,)) & (code.at >= 0)
    return np.bincount(code.at[rows], code.counts[rows], count).astype(np.float64)
