"""Records of sites: a batch of blocks is written down as if its blocks had run one after another.

A batch of n blocks that runs from t0 to t1 gives block k the slot from t0 + k (t1 - t0) / n on, and
a record at time t the place (t - t0) / n in it, both rounded down together so that slots join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode.decoding import decode_records
from tileprof.instrument.records import make_records


@dataclass(slots=True)
class OpClock:
    """A clock of executed ops: each takes `cost` ns a block, so that times are exact.

    `record` takes no time, and an op with regions takes that of the ops inside.
    """

    cost: Callable[[ir.OpBase], int] = lambda op: 1
    now: int = 0

    def __call__(self) -> int:
        """Return the time in ns."""
        return self.now

    def advance(self, op: ir.OpBase, blocks: int) -> None:
        """An op was executed for so many blocks."""
        if not op.SPEC.regions and not isinstance(op, ir.Record):
            self.now += self.cost(op) * blocks


@dataclass(slots=True)
class Recorder:
    """Collects the records of a run, batch by batch."""

    clock: Callable[[], int]
    _start: int = 0
    _events: list[tuple[int, int, NDArray[np.int64] | None]] = field(default_factory=list)
    _parts: list[SiteTimes] = field(default_factory=list)

    def begin(self) -> None:
        """A batch starts."""
        self._start = self.clock()
        self._events.clear()

    def note(self, op: ir.Record, active: NDArray[np.int64] | None) -> None:
        """A site begins or ends in some blocks of the batch (None: in all)."""
        self._events.append((self.clock(), op.site * 2 + (op.edge == "end"), active))

    def end(self, blocks: NDArray[np.int64]) -> None:
        """The batch of these blocks is over: decode what it recorded."""
        count, stop = len(blocks), self.clock()
        if not self._events:
            # These blocks visited no site, but the kernel's time is theirs too.
            self._parts.append(SiteTimes.collect([], block_ns=stop - self._start))
            return
        place = np.arange(count)[:, None]
        # One row a block: its records lie together.
        times = np.array([t for t, _, _ in self._events], np.int64)
        clock = self._start + (place * (stop - self._start) + (times - self._start)) // count
        taken = np.ones((count, len(times)), np.bool_)
        for column, (_, _, active) in enumerate(self._events):
            if active is not None:
                taken[:, column] = False
                taken[active, column] = True
        tags = np.broadcast_to(np.array([tag for _, tag, _ in self._events]), taken.shape)
        owners = np.broadcast_to(blocks[:, None], taken.shape)
        records = make_records(clock[taken], owners[taken], tags[taken])
        self._parts.append(decode_records([records], block_ns=stop - self._start))

    def collect(self) -> SiteTimes:
        """Return the times of all batches."""
        return SiteTimes.merge(self._parts)
