"""Kernels whose threads move one narrow access each and end: their number sets the time.

In: a kernel, and its accesses of less than 16 bytes a thread.  Out: the share of its time that goes
where a thread moves 16 bytes, so that as many threads fewer do.

A block that loads once, stores and ends takes `SMALL_BLOCK_LIFE` whatever it moves, and the places
for threads of a multiprocessor bound how many do so at once (Little's law). So all waves of blocks
take a time that the number of threads sets. With wider accesses there are fewer waves, until the
bytes themselves take as long.
"""

from __future__ import annotations

from collections.abc import Collection

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loops_of
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, WIDEST
from tileprof.analyzer.rules.machine_code.numbers import SHORT_LIVES_REACHED
from tileprof.analyzer.rules.numbers.blocks import SMALL_BLOCK_LIFE, SMALL_BLOCK_WAVES

__all__ = ["short_lives"]

_PLACES = {"threads", "blocks"}


def short_lives(case: KernelCase, code: KernelCode, where: Collection[int]) -> Saving | None:
    """Return what goes; None where blocks do more than one access, or where threads have room."""
    launch, use = launch_of(case), memory_use(case)
    limits = str(case.attributes.get("limited_by", "")).split(", ")
    if launch is None or use is None or not where or not _PLACES.intersection(limits):
        return None
    if launch.waves < SMALL_BLOCK_WAVES or not case.time or loops_of(code):
        return None
    lives = min(1.0, case.launches * launch.waves * SMALL_BLOCK_LIFE / case.time)
    wider = max(width_of(code.instructions[index].opcode) for index in where) / WIDEST
    goes, most = (
        lives - max(wider * lives, use.share / reached) for reached in (SHORT_LIVES_REACHED, 1.0)
    )
    if left := reach.left(case):  # instructions are as many for each byte
        goes, most = min(goes, left.mid), min(most, left.high)
    return Saving(HALFWAY * goes, goes, max(goes, most)) if goes >= COLD else None
