"""Cost of one mark to the warp that makes it, from the records of a kernel made for that.

In: nothing; later, slots.  Out: the kernel's text, which alternately runs a chain of dependent
operations without marks and with them; and from the clocks of its own records the cycles that a
mark adds.  Between two links of such a chain there are cycles in which nothing else can be issued,
as in most kernels; where a warp has always something to issue a mark takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .slots import Slots

FUNCTION: Final = "calibrate_marks"
BLOCKS: Final = 16
THREADS: Final = 128
"""A warp for each scheduler of a multiprocessor."""
SLOTS: Final = BLOCKS * THREADS // 32

_REPEATS, _TURNS, _PARTS, _LINKS = 16, 8, 8, 16
_MARKS = _TURNS * _PARTS
"""Number of marks in a chain that has them."""
CAPACITY: Final = 2048
"""Records of a slot: more than the kernel writes."""

_CLEAN, _MARKED, _WITHIN, _AFTER = range(4)
"""States: a chain without marks, one with marks, behind its first mark, behind both."""
_PATTERN = [_CLEAN, _MARKED, *[_WITHIN] * _MARKS, _AFTER]


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a mark, in cycles."""

    cycles: float
    """The median over warps."""
    spread: float
    """Cycles between the first and the third quartile of warps."""
    warps: int


def cuda_text() -> str:
    """Return the kernel's text; it includes `records.cuh` and takes a `TpRecording`."""
    numbers = {
        "REPEATS": _REPEATS, "TURNS": _TURNS, "PARTS": _PARTS, "LINKS": _LINKS,
        "THREADS": THREADS, "CLEAN": _CLEAN, "MARKED": _MARKED, "WITHIN": _WITHIN, "AFTER": _AFTER,
    }  # fmt: skip
    defines = "".join(f"#define {name} {number}\n" for name, number in numbers.items())
    return defines + (Path(__file__).parent / "calibration.cuh").read_text()


def cost_of(slots: Slots) -> Cost | None:
    """Return the cost of a mark; None where the records are not those of the kernel."""
    states = np.tile(_PATTERN, _REPEATS)
    heads, starts = slots.heads, slots.starts
    whole = np.flatnonzero((heads["kept"] == len(states)) & (heads["wanted"] == len(states)))
    found = []
    for number in whole.tolist():
        mine = slots.records[starts[number] : starts[number + 1]]
        if (mine["state"] == states).all():
            found.append(_cycles(mine["clock"].reshape(_REPEATS, -1)))
    if not found:
        return None
    first, median, third = np.quantile(found, [0.25, 0.5, 0.75])
    return Cost(max(float(median), 0.0), float(third - first), len(found))


def _cycles(clocks: NDArray[np.uint32]) -> float:
    """Return the cycles of a mark by one warp; `clocks` has a row for each repeat."""
    clean, marked = clocks[:, 1] - clocks[:, 0], clocks[:, -1] - clocks[:, 1]
    longer = marked.astype(np.int64) - clean
    # The first time the code is not there yet.
    return float(np.median(longer[1:])) / _MARKS
