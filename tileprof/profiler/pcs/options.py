"""Options of sampling program counters: a period in cycles, and whether contexts are exact."""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.errors import UsageError
from tileprof.profiler.pcs.raw import Mode

LEAST, MOST = 5, 31
"""Periods are powers of two: of 2^5 to 2^31 cycles."""
USUAL = 16
"""A GPU of 132 multiprocessors then gives four million samples a second, of which CUPTI takes in up
to fifteen million; with 2^14 it is at its limit, with 2^12 it loses three of four (H200)."""
_HINT = f"Give cycles, a number from {1 << LEAST} to {1 << MOST:,}."


@dataclass(frozen=True, slots=True)
class PcOptions:
    """Options of sampling program counters."""

    log2_period: int
    asked: int
    """The period that was asked for, in cycles: the nearest power of two is taken. 0: none was."""
    exact: bool

    @property
    def period(self) -> int:
        """Cycles between two samples of a multiprocessor."""
        return 1 << self.log2_period

    @property
    def mode(self) -> Mode:
        """Whether kernels run one after the other."""
        return "exact" if self.exact else "continuous"

    def __str__(self) -> str:
        of = f" ({self.asked:,} were asked for)" if self.asked not in (0, self.period) else ""
        return f"{self.mode}, every {self.period:,} cycles{of}"


def parse_pc_sampling(asked: object, exact: object = False) -> PcOptions | None:
    """Return what is asked for: True or "" for the usual period; None for nothing.

    `exact` alone asks for it too. `UsageError` for what is no period.
    """
    if not isinstance(exact, bool):
        raise UsageError(f"pc_sampling_exact cannot be {exact!r}", hint="Give True or False.")
    if asked is None or asked is False:
        return PcOptions(USUAL, 0, exact) if exact else None
    if asked is True or asked == "":
        return PcOptions(USUAL, 0, exact)
    cycles = _cycles(asked)
    if not 1 << LEAST <= cycles <= 1 << MOST:
        raise UsageError(f"pc_sampling cannot be {asked!r}", hint=_HINT)
    return PcOptions(_nearest(cycles), cycles, exact)


def _cycles(asked: object) -> int:
    if isinstance(asked, str) and asked.isascii() and asked.isdigit():
        return int(asked)
    return asked if isinstance(asked, int) else 0


def _nearest(cycles: int) -> int:
    """Return the power of two that is nearest as a factor."""
    below = cycles.bit_length() - 1
    return below + (cycles * cycles > 1 << (2 * below + 1))
