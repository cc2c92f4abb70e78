"""Device memory: what the native recorder knows of it, by node; each device's use over time.

In: rows of the native recorder by epoch and calling context.  Out: totals at nodes by epoch, the
most that each device had, and series of what it had over time.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_OF_MODULES = (6, 7)
"""Kinds of memory of a module's static variables: the driver takes it where it loads the module,
which may be in any call."""
_LEAST_GROWN = 3
"""Number of steps in which memory must grow to count as growing: caches fill in fewer."""
_LEAST_PART = 0.1
"""Smallest share of the steps in which it must grow: what fills up now and then is no leak."""
_MOST_SHRUNK = 0.1
"""Largest number of steps in which it may shrink, as a multiple of those in which it grows: of what
a path allocates, a part may come back."""


UNKNOWN_PATH = "allocated where no path is known"
"""Name of the node of memory that was allocated outside of all that the recorder has seen."""
MODULES = "static variables of modules"
"""Name of the node of what the driver takes for modules that it loads, below the call that needs
one."""


class MemoryState:
    """Memory of one source, until now, as the native recorder hands it over."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw

    def by_epoch(self, tree: Tree, contexts: Contexts) -> dict[int, dict[int, MemoryTotals]]:
        """Return totals by index of the node, for each epoch in which somebody listened."""
        raw, found = self._raw, dict[int, dict[int, MemoryTotals]]()
        of_host = [pool["kind"] in _OF_HOST for pool in raw["pools"]]
        of_modules = [pool["kind"] in _OF_MODULES for pool in raw["pools"]]
        names = ("epoch", "context", "pool", "allocations", "allocated", "peak", "live",
                 "lifetime", "growth", "grown", "shrunk", "releases")  # fmt: skip
        rows = zip(*(raw[name].tolist() for name in names))
        for sketch, row in zip(sketches_of(raw), rows):
            epoch, context, pool, *counts, growth, grown, shrunk, releases = row
            if not epoch:
                continue
            totals = MemoryTotals(*counts)
            if of_host[pool]:
                totals.peak = 0
            if _grows(grown, shrunk, raw["steps"]):
                totals.growth, totals.grown_steps = growth, grown
            if releases:
                totals.sketch = sketch
            node = contexts.node(context)
            if of_modules[pool]:
                node = tree.child(node, "api", MODULES, None)
            elif node is tree.root:
                node = tree.child(node, "scope", UNKNOWN_PATH, None)
            found.setdefault(epoch, {}).setdefault(node.index, MemoryTotals()).take(totals)
        return found

    def series(self, begin: int, names: tuple[str, ...]) -> Iterator[CounterSeries]:
        """Yield each device's use over time from a time on, in ns: what was handed out, and, with
        a second name, what the allocator had of the driver."""
        metrics = tuple(SeriesMetric(name, "bytes") for name in names)
        for pool in self._raw["pools"]:
            if pool["kind"] in _OF_HOST:
                continue
            first, stretch, *columns = pool["over_time"]
            start = first + stretch * np.arange(len(columns[0]), dtype=np.int64)
            made = CounterSeries.of(
                f"cuda:{pool['device']}", stretch, start, np.full(len(start), stretch), metrics,
                columns[: len(names)],
            ).since(begin)  # fmt: skip
            if len(made):
                yield made

    def facts(self, whose: str) -> Iterator[str]:
        """Yield what is to say of each device in words: the peak, and requests that failed.

        `whose` says who handed the memory out.
        """
        for place, pool in enumerate(self._raw["pools"]):
            if pool["kind"] in _OF_HOST:
                continue
            peak = format_value(pool["peak"], "bytes")
            holder = MODULES if pool["kind"] in _OF_MODULES else whose
            said = f"cuda:{pool['device']}: {peak} at most, by {holder}"
            if before := self._from_before(place):
                share = format_value(before, "bytes")
                said += f", {share} of it allocated while nothing was recorded"
            if pool["most_reserved"]:
                said += f", {format_value(pool['most_reserved'], 'bytes')} taken from the driver"
            if failures := pool["failures"]:
                requests = "1 request" if failures == 1 else f"{failures:,} requests"
                largest = format_value(pool["most_failed"], "bytes")
                said += f"; no memory for {requests}, the largest of {largest}"
            yield said

    def _from_before(self, place: int) -> int:
        """Return the part of a pool's peak that was allocated while nobody listened, in bytes."""
        nobodys = (self._raw["pool"] == place) & (self._raw["epoch"] == 0)
        return int(self._raw["peak"][nobodys].sum())


def _grows(grown: int, shrunk: int, steps: int) -> bool:
    """Return whether memory that grew and shrank in so many of all steps grows for good."""
    return grown >= max(_LEAST_GROWN, _LEAST_PART * steps) and shrunk <= _MOST_SHRUNK * grown


def read_memory(native: ModuleType) -> tuple[MemoryState, MemoryState]:
    """Return the state of PyTorch's allocator, and of what was taken from the driver beside it."""
    framework, driver = native.memory_state()
    return MemoryState(framework), MemoryState(driver)
