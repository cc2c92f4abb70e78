"""Barriers of a block that order nothing.

In: a kernel's machine code.  Out: places of barriers between which and the barrier before nothing
is read or written that threads share: no shared memory, and no store. Loads of global memory need
no barrier among themselves. In a loop that holds for a whole turn, and from the barrier before the
loop on.
"""

from __future__ import annotations

from tileprof.analyzer.machine.code import Instruction, KernelCode
from tileprof.analyzer.machine.loops import loop_around

__all__ = ["needless"]

_SHARED = (
    "LD", "LDS", "LDSM", "ST", "STS", "STSM", "ATOM", "ATOMS", "ATOMG", "RED", "REDG", "REDAS",
    "STG", "STAS", "LDGSTS", "MEMBAR", "FENCE", "SYNCS", "CALL", "ARRIVES", "CCTL",
)  # fmt: skip
_ENGINES = ("UTMA", "UBLK", "HGMMA", "QGMMA", "IGMMA", "BGMMA", "WARPGROUP", "UCGABAR", "ERRBAR")


def needless(code: KernelCode) -> list[int]:
    """Return the places of barriers that order nothing, in code that loads global memory."""
    bars = code.where(_is_of_block) if code.named("LDG") else []
    return [index for index in bars if _orders_nothing(code, index)]


def _is_of_block(each: Instruction) -> bool:
    """Whether all threads of a block wait there: named ones are for some warps."""
    return each.opcode.startswith("BAR.SYNC") and each.text.rstrip().endswith(" 0x0")


def _orders_nothing(code: KernelCode, bar: int) -> bool:
    loop, begin = loop_around(code, bar), bar
    if loop is not None:
        if any(_is_shared(code.instructions[index]) for index in loop):
            return False
        begin = loop[0]
    for index in range(begin - 1, -1, -1):
        each = code.instructions[index]
        if _is_of_block(each) and loop_around(code, index) is None:
            return True
        if _is_shared(each):
            return False
    return True


def _is_shared(each: Instruction) -> bool:
    return each.name in _SHARED or each.name.startswith(_ENGINES)
