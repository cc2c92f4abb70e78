"""Passes of accesses to shared memory, as the addresses of their lanes have them.

In: a kernel.  Out: by access, how many passes it takes and how many would do.

Shared memory has 32 banks of 4 bytes, and gives a word of each in a pass (CUDA programming guide,
shared memory). Lanes that move 8 or 16 bytes go in halves or quarters of a warp, so that each pass
has at most 128 bytes; lanes that want the same word share it. `LDSM` of four matrices has
a row of 16 bytes for each lane, and is in quarters as well.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.global_memory import block_of, width_of
from tileprof.analyzer.machine.lanes import Lanes, addresses
from tileprof.analyzer.numbers.shared import BANK_BYTES, BANKS, WIDEST
from tileprof.binary.occupancy import WARP

_ACCESSES, _ROWS = ("LDS", "STS"), ("LDSM", "STSM")


def passes_at(case: KernelCase) -> dict[int, tuple[int, int]]:
    """By place of an access whose addresses are known, its passes and those that would do."""
    code, block = case.code, block_of(case)
    if code is None or block is None:
        return {}
    found = addresses(code, block)
    widths = {i: width_of(code.instructions[i].opcode) for i in code.named(*_ACCESSES)}
    rows = {i: width_of(code.instructions[i].opcode) for i in code.named(*_ROWS)}
    widths |= {i: width for i, width in rows.items() if width == WIDEST}  # a row for each lane
    return {i: bank_passes(found[i][0], width) for i, width in widths.items() if i in found}


def bank_passes(at: Lanes, width: int) -> tuple[int, int]:
    """Passes of lanes that each move so many bytes at these addresses, and those that would do."""
    words = max(1, width // BANK_BYTES)
    turns = [at[first : first + WARP // words] for first in range(0, len(at), WARP // words)]
    return sum(_passes(turn, words) for turn in turns), len(turns)


def _passes(at: Lanes, words: int) -> int:
    wanted = np.unique(at[:, None] // BANK_BYTES + np.arange(words))
    return int(np.bincount(wanted % BANKS).max())
