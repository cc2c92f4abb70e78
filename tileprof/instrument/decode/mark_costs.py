"""Costs of marks at the sites that they measure: how many there were, and their time.

In: counts of records by state.  Out: for each entry of `SiteTimes` the marks inside its visits, and
their time, which is no part of the site's own: by how much measuring may have changed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MarkCosts:
    """Marks by entry of `SiteTimes`; numbers add up over launches."""

    count: Ints
    """Marks inside visits, that of their begin among them and that of their end not."""
    ns: Floats
    """Time of these marks in ns, as calibrated; 0 where that is not known."""

    def __add__(self, other: MarkCosts) -> MarkCosts:
        return MarkCosts(self.count + other.count, self.ns + other.ns)

    def part(self, begin: int, end: int, whole: int) -> MarkCosts:
        """Return the part of all marks from `begin` to `end` of `whole` equal parts."""
        count = self.count * end // whole - self.count * begin // whole
        return MarkCosts(count, self.ns * (end - begin) / whole)

    @classmethod
    def merge(cls, parts: Sequence[MarkCosts], rows: Sequence[Ints], size: int) -> MarkCosts:
        """Return the sums of several; entry i of part p goes to its own entry `rows[p][i]`."""
        made = cls(np.zeros(size, np.int64), np.zeros(size))
        for part, row in zip(parts, rows):
            made.count[row] += part.count
            made.ns[row] += part.ns
        return made
