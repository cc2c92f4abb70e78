"""What kernels read and write whose work nobody told: accesses that stand outside of loops.

In: a kernel's machine code and its launch.  Out: the time that all of these accesses take at the
roof of its memory. Each instruction there runs once for a warp, so its width by the threads of the
launch are its bytes; one that was never seen to issue, or wait, is taken for not executed. What is
read again comes from a cache, so where they take longer than the kernel did, nothing is known.
"""

from __future__ import annotations

import re

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.launches import launch_of

__all__ = ["accessed_bytes", "left_of_memory"]

_WIDTH = re.compile(r"\.(?:[US])?(8|16|64|128)\b")
_REACHED = (1.0, 0.95, 0.85)
"""The best, the likeliest and the least part of the roof that a kernel reaches; kernels that were
written well took 0.83 to 0.95 of the time on an H200."""


def accessed_bytes(case: KernelCase, code: KernelCode) -> float:
    """Of a launch; 0 where it is not known, or some of them are in loops."""
    launch = launch_of(case)
    accesses = code.where(lambda each: each.name in ("LDG", "STG"))
    if launch is None or any(code.instructions[each].depth for each in accesses):
        return 0.0
    width = sum(_width(code.instructions[each].opcode) for each in accesses if code.n([each]))
    return float(width * launch.blocks * launch.threads)


def left_of_memory(case: KernelCase, code: KernelCode) -> Saving | None:
    """The share of a kernel's time beyond what its accesses take; None where that is not known."""
    done, roof = accessed_bytes(case, code), case.memory_peak
    if not done or roof is None or not case.launches:
        return None
    share = done / roof.value * 1e9 * case.launches / case.time
    if share > 1:
        return None
    best, likely, least = (min(1.0, share / reached) for reached in _REACHED)
    return Saving(1 - least, 1 - likely, 1 - best)


def _width(opcode: str) -> int:
    found = _WIDTH.search(opcode)
    return int(found[1]) // 8 if found else 4
