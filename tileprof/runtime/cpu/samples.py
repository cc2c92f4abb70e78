"""Samples of kernels on the cpu: what the pool's sampler saw while a launch ran.

In: a kernel with marks and how many threads may run it.  Out: the memory in which its workers say
what they are at and the sampler counts (`prelude/sampler.h`), and from it the launch's samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tileprof.compiler.codegen import CppSource
from tileprof.instrument.decode.samples import Counts, SampleTotals
from tileprof.runtime import hooks

from .abi import Run

__all__ = ["SHORTEST_NS", "Seen"]

SHORTEST_NS = 20_000
"""Shortest period that may be asked for: a thread takes as long to wake up."""
_LINE = 8
"""64-bit words that nobody else writes to."""
_IDLE = 0xFFFFFFFF


class Seen:
    """The counts of one launch."""

    def __init__(self, source: CppSource, workers: int) -> None:
        self._source = source
        states = len(source.states)
        row = _LINE + -(-states // _LINE) * _LINE
        held = np.zeros(workers * row + _LINE, np.uint64)
        begin = -held.ctypes.data // 8 % _LINE
        self._rows: NDArray[np.uint64] = held[begin : begin + workers * row].reshape(workers, row)
        self._rows[:, 0] = _IDLE

    def give_to(self, run: Run) -> None:
        """Have a run looked at."""
        run.samples = self._rows.ctypes.data
        run.sample_bytes = self._rows.strides[0]
        run.states = len(self._source.states)
        asked = hooks.sample_period_ns
        run.period_ns = max(asked, SHORTEST_NS) if asked else 0

    def totals(self, looks: int) -> SampleTotals | None:
        """Return the totals of so many samples; None where there were none."""
        if not looks:
            return None
        states = self._source.states
        seen = self._rows[:, _LINE : _LINE + len(states)].astype(np.int64)
        return SampleTotals.of(Counts(looks, seen), self._source.sites, states, len(seen))
