"""Loops whose turns are as far apart as a grid has blocks.

In: a kernel's machine code.  Out: the outermost loop that steps by the number of blocks along an
axis: each block does a piece, then the one that is that many further on. Any number of blocks does
all pieces.

The numbers of blocks are constants of a launch (`c[0x0][0xc]` and the two behind it, as NVIDIA's
compilers place them from Kepler to Hopper), or a special register.
"""

from __future__ import annotations

import re

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loops_of
from tileprof.analyzer.machine.repeats import parsed
from tileprof.binary.register_effects import effects

__all__ = ["loop_by_grid"]

_BLOCKS = re.compile(r"c\[0x0\]\[0x(c|10|14)\]|SR_NCTAID")
_MOVES = ("LDC", "ULDC", "S2R", "S2UR", "MOV", "UMOV", "R2UR", "CS2R")
_ADDS = ("IADD3", "IADD", "VIADD", "IMAD", "UIADD3", "UIMAD", "LEA")


def loop_by_grid(code: KernelCode) -> range | None:
    """Return the longest loop that steps by the number of blocks; None where there is none."""
    lines = parsed(code)
    held = {
        name for each in lines if each.name in _MOVES and _BLOCKS.search(each.operands[-1])
        for name in effects(each).writes
    }  # fmt: skip
    for loop in reversed(loops_of(code)):
        for index in loop:
            each, does = lines[index], effects(lines[index])
            steps = not held.isdisjoint(does.reads) or any(map(_BLOCKS.search, each.operands))
            if each.name in _ADDS and steps and not {*does.writes}.isdisjoint(does.reads):
                return loop
    return None
