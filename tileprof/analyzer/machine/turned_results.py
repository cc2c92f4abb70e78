"""Loops that reduce results of matrix products along the index that lies across lanes and warps.

In: a kernel's machine code.  Out: the loop and its exchanges between threads. A row of results lies
in four lanes, so a reduction along it takes two exchanges a row. A column lies in all other lanes,
and in all warps: a reduction along it takes three exchanges for each column that a thread has part
of, then shared memory and a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_with
from tileprof.analyzer.numbers.machine import TURNED_RESULTS_FEWEST

__all__ = ["Turned", "turned_results"]

_MATRIX = (*PRODUCTS, "HMMA", "IMMA", "QMMA")


@dataclass(frozen=True, slots=True)
class Turned:
    """Exchanges of a loop."""

    loop: range
    lanes: tuple[int, ...]
    """Places of exchanges between lanes."""
    warps: tuple[int, ...]
    """Places of stores, loads and barriers of shared memory."""


@lru_cache(maxsize=4)
def turned_results(code: KernelCode) -> Turned | None:
    """Return the loop of that kind with the most samples; None for none."""
    found = list[Turned]()
    for loop in loops_with(code, _MATRIX):
        lanes, warps = (
            tuple(i for i in loop if code.instructions[i].name in names)
            for names in (("SHFL",), ("STS", "LDS", "BAR"))
        )
        stored = any(code.instructions[i].name == "STS" for i in warps)
        if len(lanes) >= TURNED_RESULTS_FEWEST and stored and is_innermost(code, loop):
            found.append(Turned(loop, lanes, warps))
    return max(found, key=lambda each: code.n(each.loop), default=None)
