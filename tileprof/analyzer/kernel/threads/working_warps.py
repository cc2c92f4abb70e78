"""Samples of warps that only wait for what others do, which say nothing of where time goes.

In: code with samples, and instructions whose part of the time is asked for.  Out: the factor from
their share of all samples to their share of the time of the warps that work.

All warps of a block are sampled alike, also those that have nothing to do meanwhile: a warp group
that copies tiles for the others waits most of the time, and warps that are done early wait at a
barrier. The time of a block is that of the warps which the others wait for. So samples of the loops
that only copy, and those at barriers elsewhere, are left out of the whole.
"""

from __future__ import annotations

from collections.abc import Collection

from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import loop_around

__all__ = ["factor_of"]

_COPIES = ("UTMALDG", "UBLKCP")
_BARRIER = "barrier"


def factor_of(code: KernelCode, where: Collection[int]) -> float:
    """Return the factor for instructions that warps with work run; at most as large as leaves them
    all of the time."""
    held = set(where)
    idle = _copying(code) - held
    elsewhere = [i for i in range(len(code.instructions)) if i not in held and i not in idle]
    left = code.whole - code.n(idle) - code.n(elsewhere, (_BARRIER,))
    own = code.n(held)
    return code.whole / max(left, own) if own else 1.0


def _copying(code: KernelCode) -> set[int]:
    """Return the instructions of loops that copy tiles and multiply nothing."""
    found = set[int]()
    products = {*code.named(*MATRIX), *code.named(*PRODUCTS)}
    for index in code.named(*_COPIES):
        loop = loop_around(code, index)
        if loop is not None and products.isdisjoint(loop):
            found.update(loop)
    return found
