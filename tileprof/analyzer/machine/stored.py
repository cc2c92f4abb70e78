"""How much of what a kernel moves it writes, by its machine code and samples.

In: code with samples.  Out: the share of stores in the bytes of global memory that threads ask for.
A sample of a warp that issues stands for as many requests at every instruction, so samples times
widths are bytes. What a kernel loads again counts again, so the share is rather too low.
"""

from __future__ import annotations

from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.repeats import parsed, width_in
from tileprof.analyzer.numbers.kernels import REACH_FEWEST

__all__ = ["stored_share"]

_LOADS, _STORES = ("LDG", "LDGSTS"), ("STG", "RED", "REDG")
_ENGINES = ("UTMALDG", "UTMASTG", "UBLKCP", "UTMAREDG")


def stored_share(code: KernelCode) -> float:
    """Return the share of stores, 0 to 1; 0 where copies of tiles or few samples hide it."""
    if code.named(*_ENGINES):
        return 0.0
    loads, stores = code.named(*_LOADS), code.named(*_STORES)
    if code.n((*loads, *stores), (ISSUED,)) < REACH_FEWEST:
        return 0.0
    loaded, stored = _bytes(code, loads), _bytes(code, stores)
    return stored / (loaded + stored)


def _bytes(code: KernelCode, where: list[int]) -> float:
    """Bytes that samples of these accesses stand for, in any unit."""
    lines = parsed(code)
    return sum(
        code.n([index], (ISSUED,)) * int(width_in(lines[index]).lstrip("US")) for index in where
    )
