"""Shares of asynchronous work that are hidden behind other work.

In: what was under way (`queues.py`).  Out: facts; numbers, each with a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof.remarks import Decision, measured
from tileprof.remarks.measured import Overlapped

from .queues import Flights, loads_tiles


@dataclass(frozen=True, slots=True)
class Hidden:
    """Share of a queue's asynchronous work that goes on while nobody waits for it."""

    queue: str
    groups: int
    flight_ns: float
    """Time from starts to ends of waits, summed, in ns."""
    exposed_ns: float
    """Part of that time in which a warp waited, in ns."""

    @property
    def share(self) -> float:
        """Hidden, 0 to 1."""
        return 1 - self.exposed_ns / self.flight_ns

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        return measured.Hidden(_work(self.queue), self.share)


def _work(queue: str) -> str:
    names = {"wgmma": "a matrix product", "cp.async": "a copy", "bulk": "a store"}
    return names.get(queue, f"a load ({queue})")


def hidden_work(flights: Sequence[Flights]) -> list[Hidden]:
    """Return one fact for each queue in which something was retired."""
    made = [
        Hidden(f.queue, len(f), float(f.flight_ns.sum()), float(f.exposed_ns.sum()))
        for f in flights
    ]
    return [each for each in made if each.flight_ns > 0]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Times in which loads and matrix products of one block are under way, alone and together."""

    loads_ns: float
    products_ns: float
    both_ns: float

    @property
    def share(self) -> float:
        """Time in which both are under way, as a share of the shorter of the two, 0 to 1."""
        return self.both_ns / min(self.loads_ns, self.products_ns)

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        if self.loads_ns <= self.products_ns:
            return Overlapped("loads", "matrix products", self.share)
        return Overlapped("matrix products", "loads", self.share)


def overlap(flights: Sequence[Flights]) -> Overlap | None:
    """Return the overlap over all blocks; None unless both kinds of work are asynchronous.

    Work is under way until somebody who waits for it knows that it is done, so both times are upper
    bounds.
    """
    loads = [f for f in flights if loads_tiles(f.queue)]
    products = [f for f in flights if f.queue == "wgmma"]
    blocks = sorted({b for f in (*loads, *products) for b in f.block.tolist()})
    sums = np.zeros(3)
    for block in blocks:
        a, b = _union(loads, block), _union(products, block)
        sums += (_length(a), _length(b), _length(a) + _length(b) - _length(_merged([a, b])))
    return Overlap(*sums.tolist()) if sums[0] > 0 and sums[1] > 0 else None


_Spans = NDArray[np.float64]
"""(spans, 2): begin and end, apart from each other and in order."""


def _union(flights: Sequence[Flights], block: int) -> _Spans:
    chosen = [f.block == block for f in flights]
    spans = [np.stack([f.issued[c], f.retired[c]], axis=1) for f, c in zip(flights, chosen)]
    return _merged([np.empty((0, 2)), *spans])


def _merged(parts: Sequence[_Spans]) -> _Spans:
    spans = np.concatenate(parts)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    if not len(spans):
        return spans
    until = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.append(True, spans[1:, 0] > until[:-1]))
    last = np.append(first[1:], len(spans)) - 1
    return np.stack([spans[first, 0], until[last]], axis=1)


def _length(spans: _Spans) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum())
