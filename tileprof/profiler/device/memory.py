"""Device memory: what the native recorder knows of it, by node; each device's use over time.

In: rows of the native recorder by epoch and calling context.  Out: totals at nodes by epoch, the
most that each device had, and series of what it had over time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tileprof.profile import CounterSeries, SeriesMetric
from tileprof.profile.units import format_value
from tileprof.profiler.device.activities import sketches_of
from tileprof.profiler.tree.contexts import Contexts
from tileprof.profiler.tree.totals import MemoryTotals
from tileprof.profiler.tree.tree import Tree

_OF_HOST = (1, 2)
"""Kinds of memory that are no device's, in CUPTI's numbers: pageable and pinned."""
_LEAST_GROWN = 3
"""Number of steps in which memory must grow to count as growing: caches fill in fewer."""
_LEAST_PART = 0.1
"""Smallest share of the steps in which it must grow: what fills up now and then is no leak."""


UNKNOWN_PATH = "allocated where no path is known"
"""Name of the node of memory that was allocated outside of all that the recorder has seen."""


@dataclass(frozen=True)
class MemoryState:
    """Memory of one source, until now."""

    by_epoch: dict[int, dict[int, MemoryTotals]]
    """Totals by index of the node, for each epoch in which somebody listened."""
    pools: tuple[dict[str, Any], ...]
    """Use of each device's memory, as the native recorder hands it over."""

    def series(self, begin: int, names: tuple[str, ...]) -> Iterator[CounterSeries]:
        """Yield each device's use over time from a time on, in ns: what was handed out, and, with
        a second name, what the allocator had of the driver."""
        metrics = tuple(SeriesMetric(name, "bytes") for name in names)
        for pool in self.pools:
            first, stretch, *columns = pool["over_time"]
            start = first + stretch * np.arange(len(columns[0]), dtype=np.int64)
            values, device = columns[: len(names)], f"cuda:{pool['device']}"
            made = CounterSeries.of(
                device, stretch, start, np.full(len(start), stretch), metrics, values
            )
            if len(made := made.since(begin)):
                yield made

    def facts(self, whose: str) -> Iterator[str]:
        """Yield what is to say of each device in words: the peak, and requests that failed.

        `whose` says who handed the memory out.
        """
        for pool in self.pools:
            peak = format_value(pool["peak"], "bytes")
            said = f"cuda:{pool['device']}: {peak} at most, by {whose}"
            if pool["before"]:
                before = format_value(pool["before"], "bytes")
                said += f", {before} of it allocated while nothing was recorded"
            if pool["most_reserved"]:
                said += f", {format_value(pool['most_reserved'], 'bytes')} taken from the driver"
            if failures := pool["failures"]:
                requests = "1 request" if failures == 1 else f"{failures:,} requests"
                largest = format_value(pool["most_failed"], "bytes")
                said += f"; no memory for {requests}, the largest of {largest}"
            yield said


def read_memory(
    native: ModuleType, tree: Tree, contexts: Contexts
) -> tuple[MemoryState, MemoryState]:
    """Return the state of PyTorch's allocator, and of what was taken from the driver beside it."""
    framework, driver = native.memory_state()
    return _state(framework, tree, contexts), _state(driver, tree, contexts)


def _state(raw: dict[str, Any], tree: Tree, contexts: Contexts) -> MemoryState:
    found: dict[int, dict[int, MemoryTotals]] = {}
    for pool in raw["pools"]:
        pool["before"] = 0
    of_host = [pool["kind"] in _OF_HOST for pool in raw["pools"]]
    names = ("epoch", "context", "pool", "allocations", "allocated", "peak", "live", "lifetime",
             "growth", "grown", "shrunk", "releases")  # fmt: skip
    rows = zip(*(raw[name].tolist() for name in names))
    for sketch, row in zip(sketches_of(raw), rows):
        epoch, context, pool, *counts, growth, grown, shrunk, releases = row
        if not epoch:
            raw["pools"][pool]["before"] += counts[2]
            continue
        totals = MemoryTotals(*counts)
        if of_host[pool]:
            totals.peak = 0
        if grown >= max(_LEAST_GROWN, _LEAST_PART * raw["steps"]) and not shrunk:
            totals.growth, totals.grown_steps = growth, grown
        if releases:
            totals.sketch = sketch
        node = contexts.node(context)
        if node is tree.root:
            node = tree.child(node, "scope", UNKNOWN_PATH, None)
        found.setdefault(epoch, {}).setdefault(node.index, MemoryTotals()).take(totals)
    pools = (pool for pool, host in zip(raw["pools"], of_host) if not host)
    return MemoryState(found, tuple(pools))
