"""Numbers of a sample and what they say of the whole it was drawn from."""

from __future__ import annotations

import math

_Z = 1.959963984540054
"""The normal distribution's quantile for 95 %, both sides."""
_FEW = (math.nan, 12.7062, 4.30265, 3.18245, 2.77645, 2.57058)


class Moments:
    """Count, mean and spread of numbers that are not kept (Welford)."""

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take a number in."""
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    def error(self, whole: int) -> float:
        """Half the width of the 95 % interval of the mean of all `whole` numbers.

        These were drawn from them, so that nothing is unknown once all are. NaN for a single one.
        """
        if self.count >= whole:
            return 0.0
        if self.count < 2:
            return math.nan
        variance = self._squares / (self.count - 1) / self.count * (1 - self.count / whole)
        return students_t(self.count - 1) * math.sqrt(variance)


def students_t(freedom: int) -> float:
    """Student's t for 95 %, both sides, right to 0.1 %; `freedom` is 1 at least."""
    if freedom < len(_FEW):
        return _FEW[freedom]
    # Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
