"""All patterns by group, in the order in which they are counted."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.access_patterns.accesses import (
    global_memory,
    local,
    matrices,
    shared,
    shared_atomics,
)
from benchmarks.access_patterns.boxes import boxes
from benchmarks.access_patterns.copies import copies
from benchmarks.access_patterns.patterns import Group, Pattern

_SOURCES = (copies, boxes, shared_atomics, matrices, shared, global_memory, local)
"""Sources of patterns; what the newest misses are about comes first."""


def catalogue() -> dict[Group, tuple[Pattern, ...]]:
    """Return the patterns of each group."""
    found: dict[Group, tuple[Pattern, ...]] = {}
    for source in _SOURCES:
        made = tuple(source())
        found[made[0].group] = made
    return found


def by_name(groups: Iterable[tuple[Pattern, ...]]) -> dict[str, Pattern]:
    """Return patterns by their names."""
    return {each.name: each for patterns in groups for each in patterns}
