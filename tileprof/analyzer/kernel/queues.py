"""What waits because the queue of memory instructions of a multiprocessor is full.

In: code with samples, passes that a request of an access takes, and how many of them go.  Out:
samples, by row, that go with them, at these accesses and elsewhere.

Accesses of memory, exchanges between lanes and reads of special registers go through one queue
(the MIO, as NVIDIA's Nsight Compute documentation has it under "mio_throttle"), in order. So an
access that takes many passes also stops instructions of other kinds from entering, and those behind
it answer late (`short_scoreboard`). Of such waits that part is its fault that its passes are of all
that were issued to the queue; a sample of a warp that issues stands for as many requests at every
instruction. A request is one pass for its addresses, and one for each 128 bytes that it moves, or
for each sector of an atomic. Products of matrices wait for descriptors there (`mio_throttle` too),
whoever else issues, so they are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.kernel.global_memory import ACCESSES, ATOMICS, width_of
from tileprof.analyzer.machine.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.numbers.shared import LINE, SECTOR
from tileprof.binary.occupancy import WARP

FULL = ("lg_throttle", "mio_throttle")
"""Reasons of a warp whose next access finds the queue of global memory, or the one behind it,
full."""
_LATE = ("short_scoreboard",)
_QUEUED = (*ACCESSES, *ATOMICS, "LDS", "STS", "LDSM", "STSM", "ATOMS")
_LANES = ("SHFL", "S2R")


def passes_of(instruction: Instruction) -> float:
    """Of a request of a full warp whose lanes are side by side."""
    if instruction.name in _LANES:
        return 1.0
    whole = WARP * width_of(instruction.opcode)
    return 1 + max(1.0, whole / (SECTOR if instruction.name in ATOMICS else LINE))


def of_ways(code: KernelCode, ways: Mapping[int, float]) -> tuple[dict[int, float], ...]:
    """By place of an access that moves its bytes in so many times the passes that would do: those
    of them that go with that, and all of a request."""
    one = {index: passes_of(code.instructions[index]) - 1 for index in ways}
    gone = {index: (ways[index] - 1) * one[index] for index in ways}
    return gone, {index: 1 + ways[index] * one[index] for index in ways}


def behind(
    code: KernelCode, gone: Mapping[int, float], passes: Mapping[int, float] | None = None
) -> Weights:
    """By row, samples that wait in the queue for passes that go.

    gone: of a request, by place of its instruction. `passes`: of those that are not in order.
    """
    queued = code.named(*_QUEUED, *_LANES)
    known = {index: passes_of(code.instructions[index]) for index in queued}
    held = known | dict(passes or {})
    issued = {index: code.n([index], (ISSUED,)) for index in queued}
    whole = sum(issued[index] * held[index] for index in queued)
    part = sum(issued[index] * many for index, many in gone.items()) / whole if whole else 0.0
    return min(part, 1.0) * (code.taken(code.rows(queued, FULL)) + code.waiting_for(queued, _LATE))
